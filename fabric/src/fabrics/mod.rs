//! Wire types of NVMe over Fabrics: Connect, Property Get and Set, Disconnect, discovery log page.
