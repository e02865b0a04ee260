//! A client: it reads as fast as it may.

use std::net::SocketAddr;
use std::time::{Duration, Instant};

use fabric_verbs::Part;
use pmem::one_sided::Ticket;
use pmem_verbs::client::{Client, ClientError};
use pmem_verbs::gate::Pace;

use crate::common::{BLOCK, LENGTH, PATIENCE, request};

/// Runs a client for some seconds.
pub(crate) fn run(address: SocketAddr, number: u32, seconds: u64, pace: Pace) {
    let client = Client::open(address, request(number), pace, PATIENCE).unwrap();
    let data = client.accept().data;
    println!("client {number}: data at {} by key {}", data.at.0, data.key);
    let free = client.buffers(pace.window(), BLOCK).unwrap();
    let mut reader = Reader { client, free, block: number.into(), done: 0 };
    reader.client.want(u64::MAX);
    match reader.run(number, Duration::from_secs(seconds)) {
        Ok(()) => println!("client {number} is over"),
        Err(_) => println!("client {number} ended: {:?}", reader.client.fault()),
    }
}

struct Reader {
    client: Client,
    free: Vec<Part>,
    /// The block that was read last.
    block: u64,
    /// I/Os in the present second, of a client that has no periods.
    done: u64,
}

impl Reader {
    fn run(&mut self, number: u32, time: Duration) -> Result<(), ClientError> {
        let (begin, mut second) = (Instant::now(), 0);
        while begin.elapsed() < time {
            self.client.wait(Duration::from_millis(100))?;
            while let Some(end) = self.client.period_ended() {
                println!("client {number} period {} done {}", end.period.0, end.completed);
            }
            if self.client.engine().is_none() && begin.elapsed().as_secs() != second {
                println!("client {number} period {second} done {}", self.done);
                (second, self.done) = (begin.elapsed().as_secs(), 0);
            }
            self.take();
            self.post()?;
        }
        Ok(())
    }

    /// Compares the data read with the expected data.
    fn take(&mut self) {
        while let Some(transfer) = self.client.transferred() {
            if transfer.result.is_ok() {
                let first = transfer.buffer.bytes()[..8].try_into().unwrap();
                let place = u64::from_ne_bytes(first);
                assert_eq!(place, transfer.ticket.0 * BLOCK as u64, "other data than asked for");
                self.done += 1;
            }
            self.free.push(transfer.buffer);
        }
    }

    /// Reads on as long as I/Os may go.
    fn post(&mut self) -> Result<(), ClientError> {
        while let Some(buffer) = self.free.pop() {
            let block = (self.block + 1) % (LENGTH / BLOCK) as u64;
            if let Some(buffer) = self.client.read(Ticket(block), block * BLOCK as u64, buffer)? {
                self.free.push(buffer);
                break;
            }
            self.block = block;
        }
        Ok(())
    }
}
