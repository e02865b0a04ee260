//! What a Linux socket tells of the network, and takes from a controller.
