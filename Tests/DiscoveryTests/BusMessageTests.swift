@testable import Discovery
import TestRandomness
import Testing

/// Messages of D-Bus, as the specification lays them out.
@Suite("Messages of the bus")
struct BusMessageTests {
    private static let call = BusMessage.call(
        "org.freedesktop.Avahi", "/Client1/EntryGroup1", "org.freedesktop.Avahi.EntryGroup", "AddService", "iiussssqaay",
        [
            .int32(-1), .int32(-1), .number(0), .text("hub"), .text("_blipsync._tcp"), .text(""), .text(""), .number(4984),
            .array([.array([.number(0x61), .number(0x3D)]), .array([])]),
        ])

    @Test("what was written is read again, with its header")
    func roundTrip() throws {
        var call = Self.call
        call.serial = 7
        let bytes = call.encoded()
        #expect(try BusMessage.length(bytes[...]) == bytes.count)
        let read = try #require(try BusMessage.decode(bytes[...]))
        #expect(read.kind == .call)
        #expect(read.serial == 7)
        #expect(read.destination == "org.freedesktop.Avahi")
        #expect(read.path == "/Client1/EntryGroup1")
        #expect(read.interface == "org.freedesktop.Avahi.EntryGroup")
        #expect(read.member == "AddService")
        #expect(read.body == call.body)
    }

    @Test("the bytes of a call are those of the specification")
    func bytes() {
        var hello = BusMessage.call("a.b", "/a", "a.b", "H")
        hello.serial = 1
        #expect(hello.encoded() == Array("l\u{1}\u{0}\u{1}\u{0}\u{0}\u{0}\u{0}\u{1}\u{0}\u{0}\u{0}".utf8)
            + [0x3C, 0, 0, 0]
            + [1] + Array("\u{1}o\u{0}\u{2}\u{0}\u{0}\u{0}/a\u{0}\u{0}\u{0}\u{0}\u{0}\u{0}".utf8)
            + [2] + Array("\u{1}s\u{0}\u{3}\u{0}\u{0}\u{0}a.b\u{0}\u{0}\u{0}\u{0}\u{0}".utf8)
            + [3] + Array("\u{1}s\u{0}\u{1}\u{0}\u{0}\u{0}H\u{0}\u{0}\u{0}\u{0}\u{0}\u{0}\u{0}".utf8)
            + [6] + Array("\u{1}s\u{0}\u{3}\u{0}\u{0}\u{0}a.b\u{0}\u{0}\u{0}\u{0}\u{0}".utf8))
    }

    @Test("a big-endian error is understood")
    func bigEndian() throws {
        let bytes: [UInt8] =
            [UInt8(ascii: "B"), 3, 0, 1, 0, 0, 0, 7, 0, 0, 0, 9, 0, 0, 0, 15]
            + [5, 1, UInt8(ascii: "u"), 0, 0, 0, 0, 4] + [8, 1, UInt8(ascii: "g"), 0, 1, UInt8(ascii: "s"), 0, 0]
            + [0, 0, 0, 2, UInt8(ascii: "n"), UInt8(ascii: "o"), 0]
        #expect(try BusMessage.length(bytes[...]) == bytes.count)
        let message = try #require(try BusMessage.decode(bytes[...]))
        #expect(message.kind == .error)
        #expect(message.replySerial == 4)
        #expect(message.body == [.text("no")])
    }

    @Test("whatever the bytes are, nothing is read beyond them")
    func damaged() {
        var random = SeededGenerator(seed: 4)
        let bytes = Self.call.encoded()
        for _ in 0..<20_000 {
            var damaged = bytes
            for _ in 0..<Int.random(in: 1...4, using: &random) { damaged[Int.random(in: 0..<damaged.count, using: &random)] = UInt8.random(in: 0...255, using: &random) }
            if Bool.random(using: &random) { damaged.removeLast(Int.random(in: 0..<damaged.count, using: &random)) }
            _ = try? BusMessage.length(damaged[...])
            _ = try? BusMessage.decode(damaged[...])
        }
    }

    @Test("a message that claims more than its bound is refused before it is held")
    func tooLong() {
        let bytes: [UInt8] = [UInt8(ascii: "l"), 4, 0, 1, 0, 0, 0, 0x10, 1, 0, 0, 0, 0, 0, 0, 0]
        #expect(throws: DiscoveryError.malformed) { try BusMessage.length(bytes[...]) }
    }
}
