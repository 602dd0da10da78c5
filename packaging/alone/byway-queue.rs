//! A submission queue in memory of one's own: the host's half fills a slot, the device's half takes it.
use byway_queue::{SLOT_BYTES, SlotMemory, SubmissionConsumer, SubmissionProducer};

struct Slots(std::sync::Mutex<[[u8; SLOT_BYTES]; 4]>);

impl SlotMemory for Slots {
    fn write_slot(&self, index: u16, bytes: &[u8; SLOT_BYTES]) {
        self.0.lock().unwrap()[usize::from(index)] = *bytes;
    }
}

fn main() {
    let mut host = SubmissionProducer::new(4, Slots([[0; SLOT_BYTES]; 4].into())).unwrap();
    let mut device = SubmissionConsumer::new(4).unwrap();
    let mut permit = host.reserve(1).unwrap();
    assert!(permit.write(&[7; SLOT_BYTES]));
    let tail = permit.commit();
    assert_eq!(device.set_tail(tail.into()), Ok(1));
    println!("slot {:?} is taken", device.next());
}
