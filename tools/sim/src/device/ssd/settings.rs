//! The properties of an SSD. Names and values marked MQSim are from its `ssdconfig.xml` (Tavakkol et al., FAST 2018;
//! docs/research/sources.md, E5): the source's simulator contains MQSim.

use core::time::Duration;

use super::super::error::{SettingsError, require};

/// The order in which a chip serves what waits for it. Reads go before writes of the same class, and
/// both before garbage collection (MQSim: `Transaction_Scheduling_Policy` `PRIORITY_OUT_OF_ORDER`),
/// unless there are no free blocks left.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Order {
    /// In order of arrival: a device that knows no classes (scenarios 1 and 2 of the source's
    /// Fig. 7).
    Arrival,
    /// Urgent first, then High, Medium and Low by weights, as NVMe's queues (its scenario 3).
    Classes {
        /// Pages that High, Medium and Low may have in a row: 3, 2 and 1 in the source.
        weights: [u32; 3],
    },
}

/// The properties of an SSD.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Settings {
    /// Channels (MQSim: `Flash_Channel_Count`, 8).
    pub channels: u32,
    /// Chips on a channel (`Chip_No_Per_Channel`, 4). The source says that an SSD has 2 to 16.
    pub chips: u32,
    /// Dies in a chip (`Die_No_Per_Chip`, 2). A die does one thing at a time.
    pub dies: u32,
    /// Planes in a die (`Plane_No_Per_Die`, 2), which read or program a page each at once.
    pub planes: u32,
    /// Blocks in a plane (`Block_No_Per_Plane`, 2048).
    pub blocks: u32,
    /// Pages in a block (`Page_No_Per_Block`, 256).
    pub pages: u32,
    /// Bytes in a page (`Page_Capacity`, 8192). The source: 4 to 16 KB.
    pub page: u32,
    /// The time to read a page (`Page_Read_Latency_LSB`, 75 us).
    pub read: Duration,
    /// The time to program a page. `Page_Program_Latency_LSB` is 75 us, as long as a read; here it is
    /// ten times that, as programming takes longer than reading in flash.
    pub program: Duration,
    /// The time to erase a block (`Block_Erase_Latency`, 3.8 ms).
    pub erase: Duration,
    /// Bytes in a second on a channel (`Channel_Transfer_Rate`, 333 million of one byte).
    pub channel_rate: u64,
    /// Bytes in a second to the host, and as many from it: `PCIe_Lane_Count` 4, of 1 GB/s each as PCIe 3.0
    /// has them (`PCIe_Lane_Bandwidth` is 0.1 GB/s).
    pub host_rate: u64,
    /// The time of the controller for a command, in which others do not wait. MQSim has it nowhere;
    /// 5 us stand for the submission, the firmware and the interrupt of a real device.
    pub controller: Duration,
    /// Bytes of DRAM for written pages that are not programmed (`Data_Cache_Capacity`, 256 MB). A write ends when it is
    /// there. Pages are programmed, the oldest first, while it is more than half full.
    pub write_buffer: u64,
    /// The part of the blocks that the host does not see (`Overprovisioning_Ratio`, 0.07).
    pub spare: f64,
    /// The part of a plane's blocks that are free, below which its garbage is collected
    /// (`GC_Exec_Threshold`, 0.05): the block with the fewest valid pages first (greedy).
    pub collect_below: f64,
    /// The part below which that goes before everything else (`GC_Hard_Threshold`, 0.005), at least
    /// two blocks.
    pub collect_first_below: f64,
    /// The order of a chip.
    pub order: Order,
}

impl Default for Settings {
    /// Makes the SSD that MQSim comes with, which is full.
    fn default() -> Self {
        Self {
            channels: 8,
            chips: 4,
            dies: 2,
            planes: 2,
            blocks: 2048,
            pages: 256,
            page: 8192,
            read: Duration::from_micros(75),
            program: Duration::from_micros(750),
            erase: Duration::from_micros(3800),
            channel_rate: 333_000_000,
            host_rate: 4_000_000_000,
            controller: Duration::from_micros(5),
            write_buffer: 256 << 20,
            spare: 0.07,
            collect_below: 0.05,
            collect_first_below: 0.005,
            order: Order::Classes { weights: [3, 2, 1] },
        }
    }
}

impl Settings {
    /// Makes an SSD whose reads take as long as the source's own, measured locally: 40 to 90 us (section 4.1, Fig. 5a,
    /// a Samsung 970 EVO Plus). The source does not list its times. We use 30 us for the read of a page of 16 KiB and
    /// 800 MB/s on a channel: reads of 4 to 64 KiB then take 41 to 80 us.
    #[must_use]
    pub fn measured() -> Self {
        Self {
            chips: 2,
            page: 16384,
            read: Duration::from_micros(30),
            channel_rate: 800_000_000,
            ..Self::default()
        }
    }

    /// Returns the blocks of a plane that the host's data fills.
    pub(super) fn user_blocks(&self) -> u32 {
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "a part of u32"
        )]
        let blocks = (f64::from(self.blocks) * (1.0 - self.spare)).floor() as u32;
        blocks
    }

    pub(super) const fn all_planes(&self) -> u32 {
        self.channels * self.chips * self.dies * self.planes
    }

    pub(super) fn planes_of(&self, die: u32) -> impl Iterator<Item = u32> + use<> {
        let dies = self.channels * self.chips * self.dies;
        (0..self.planes).map(move |plane| plane * dies + die)
    }

    /// Returns the free blocks of a plane below which its garbage is collected.
    pub(super) fn collecting(&self) -> usize {
        self.part(self.collect_below).max(4)
    }

    /// Returns the free blocks of a plane down to which that is not pressing.
    pub(super) fn pressing(&self) -> usize {
        self.part(self.collect_first_below).max(2)
    }

    fn part(&self, part: f64) -> usize {
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "a part of u32"
        )]
        let blocks = (f64::from(self.blocks) * part) as usize;
        blocks
    }

    /// Returns the bytes that the host sees.
    #[must_use]
    pub fn capacity(&self) -> u64 {
        let pages = u64::from(self.user_blocks()) * u64::from(self.pages);
        pages * u64::from(self.all_planes()) * u64::from(self.page)
    }

    /// Checks the properties.
    ///
    /// # Errors
    ///
    /// The first value out of its range, with the range.
    pub fn check(&self) -> Result<(), SettingsError> {
        let count = |key, value: u32, most: u32, range| {
            require(key, (1..=most).contains(&value), value.to_string(), range)
        };
        count("channels", self.channels, 64, "1 to 64, such as 8")?;
        count("chips", self.chips, 64, "1 to 64 on each channel, such as 4")?;
        count("dies", self.dies, 16, "1 to 16 in each chip, such as 2")?;
        count("planes", self.planes, 16, "1 to 16 in each die, such as 2")?;
        require(
            "blocks",
            (8..=65_536).contains(&self.blocks),
            self.blocks.to_string(),
            "8 to 65536 in each plane, such as 2048",
        )?;
        count("pages", self.pages, 4096, "1 to 4096 in each block, such as 256")?;
        let page = self.page.is_power_of_two() && (4096..=32_768).contains(&self.page);
        require("page", page, format!("{} bytes", self.page), "4096, 8192, 16384 or 32768 bytes")?;
        for (key, rate) in [("channel_rate", self.channel_rate), ("host_rate", self.host_rate)] {
            let fits = (1_000_000..=1_000_000_000_000).contains(&rate);
            require(key, fits, format!("{rate} bytes per second"), "1 MB/s to 1 TB/s")?;
        }
        let buffer = self.write_buffer >= 16 * u64::from(self.page);
        require(
            "write_buffer",
            buffer,
            format!("{} bytes", self.write_buffer),
            "16 pages or more",
        )?;
        // Two blocks are being filled, and two must be left to collect garbage into.
        let spare = self.blocks - self.user_blocks().min(self.blocks);
        let fits = (0.0..1.0).contains(&self.spare) && spare >= 4 && self.user_blocks() > 0;
        require(
            "spare",
            fits,
            self.spare.to_string(),
            "below 1.0, and four blocks of a plane or more: 0.07 with 64 blocks",
        )?;
        let fits = (0.0..=self.spare).contains(&self.collect_below);
        require(
            "collect_below",
            fits,
            self.collect_below.to_string(),
            "0.0 to the value of `spare`",
        )?;
        let fits = (0.0..=1.0).contains(&self.collect_first_below);
        require("collect_first_below", fits, self.collect_first_below.to_string(), "0.0 to 1.0")?;
        if let Order::Classes { weights } = self.order {
            let fits = weights.iter().all(|weight| (1..=256).contains(weight));
            require("weights", fits, format!("{weights:?}"), "1 to 256 each, such as 3, 2, 1")?;
        }
        Ok(())
    }
}
