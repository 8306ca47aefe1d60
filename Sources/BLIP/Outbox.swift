import Encodings
import NIOCore

/// A message to send, or the part of it that remains.
struct OutgoingMessage {
    /// `FrameType.request`, `.reply` or `.errorReply`.
    var type: UInt8
    /// Set when the first frame of a request is produced.
    var number: UInt64
    var flags: BLIPFlags
    /// Empty for replies.
    var profile: String
    /// Once the message has begun: the part of its properties that remains, including their length field.
    var head: ByteBuffer
    var body: ByteBuffer
    var hasBegun = false
    /// Nil for replies and for requests that want no reply.
    var token: RequestToken?
    /// Whether this is a reply whose body is kept in `OutgoingStreams`, and in `body` only while a frame is made from it.
    var isStream = false
    /// Whether more of the body may be supplied. Only set on a stream while a frame is made from it.
    var isOpen = false

    var isUrgent: Bool { flags.contains(.urgent) }
    var isRequest: Bool { type == FrameType.request }
    var remainingBytes: Int { head.readableBytes + body.readableBytes + profileLength }
    /// Memory taken beyond the remaining bytes: what is already sent, and unused capacity. Streams are not counted here.
    var spentBytes: Int { isStream ? 0 : max(0, head.storageCapacity + body.touchedBytes - remainingBytes) }
    var key: MessageKey { MessageKey(number: number, isReply: !isRequest) }

    private static let profileKey: StaticString = "Profile"

    /// Size of the pair `Profile`, in bytes; 0 if there is none, or once the message has begun.
    private var profileLength: Int {
        hasBegun || profile.isEmpty ? 0 : Self.profileKey.utf8CodeUnitCount + 1 + profile.utf8.count + 1
    }

    /// Length of the message's start, its properties with their length field. Valid only before it has begun.
    var startLength: Int {
        let count = profileLength + head.readableBytes
        return Varint.length(UInt64(count)) + count
    }

    /// Writes the message's start. Valid only before it has begun.
    func writeStart(to buffer: inout ByteBuffer) {
        buffer.writeVarint(UInt64(profileLength + head.readableBytes))
        if !profile.isEmpty {
            buffer.writeStaticString(Self.profileKey)
            buffer.writeInteger(0, as: UInt8.self)
            buffer.writeString(profile)
            buffer.writeInteger(0, as: UInt8.self)
        }
        buffer.writeImmutableBuffer(head)
    }
}

/// Identifies a message in one direction.
struct MessageKey: Hashable {
    var number: UInt64
    var isReply: Bool
}

/// The queue of messages with something to send, each at most once. The owner takes the head, sends one frame of it, and puts it back if more
/// remains.
///
/// Normal messages are appended. An urgent message goes behind the last urgent one with one normal message in between, so that they alternate; if no
/// urgent one is queued, it goes behind the first message. But a message that has not begun never overtakes another that has not begun: the peer
/// relies on increasing request numbers. A linked list in an array keeps each step O(1).
struct Outbox {
    private struct Slot {
        var message: OutgoingMessage?
        var next: Int
    }

    private static let none = -1
    /// Slots kept for reuse once the queue is empty.
    private static let keptSlots = 1024

    private var slots: [Slot] = []
    private var free = none
    private var head = none
    private var tail = none
    private var lastUrgent = none
    private var lastUnbegun = none
    /// Whether `lastUrgent` is `lastUnbegun` or comes after it. Meaningless unless both are set.
    private var urgentIsBehind = false
    private(set) var count = 0

    var isEmpty: Bool { count == 0 }
    var headIsUrgent: Bool { head != Self.none && slots[head].message?.isUrgent == true }

    mutating func enqueue(_ message: OutgoingMessage) {
        let isNew = !message.hasBegun
        let isUrgent = message.isUrgent
        let predecessor = isUrgent && count >= 2 ? urgentPredecessor(isNew: isNew) : tail
        // Where the new last urgent message stands relative to the last one that has not begun.
        let isBehind =
            predecessor == tail || predecessor == lastUnbegun || lastUnbegun == Self.none
            || (lastUrgent != Self.none && urgentIsBehind)

        let slot = insert(message, after: predecessor)
        if isUrgent {
            lastUrgent = slot
            urgentIsBehind = isBehind
        }
        if isNew {
            lastUnbegun = slot
            urgentIsBehind = isUrgent
        }
    }

    mutating func dequeue() -> OutgoingMessage? {
        guard head != Self.none else { return nil }
        let slot = head
        let message = slots[slot].message.take()
        head = slots[slot].next
        slots[slot].next = free
        free = slot
        count -= 1
        if lastUrgent == slot { lastUrgent = Self.none }
        if lastUnbegun == slot { lastUnbegun = Self.none }
        if head == Self.none {
            tail = Self.none
            if slots.count > Self.keptSlots {
                slots = []
                free = Self.none
            }
        }
        return message
    }

    private func urgentPredecessor(isNew: Bool) -> Int {
        if isNew, lastUnbegun != Self.none, lastUrgent == Self.none || !urgentIsBehind { return lastUnbegun }
        if lastUrgent == Self.none { return head }
        let following = slots[lastUrgent].next
        return following == Self.none ? lastUrgent : following
    }

    private mutating func insert(_ message: OutgoingMessage, after predecessor: Int) -> Int {
        let slot: Int
        let next = predecessor == Self.none ? Self.none : slots[predecessor].next
        if free != Self.none {
            slot = free
            free = slots[slot].next
            slots[slot] = Slot(message: message, next: next)
        } else {
            slot = slots.count
            slots.append(Slot(message: message, next: next))
        }
        if predecessor == Self.none { head = slot } else { slots[predecessor].next = slot }
        if predecessor == tail { tail = slot }
        count += 1
        return slot
    }
}
