/// Documents like those written by a machine's gateway: 12 fields in the application's own order, ASCII, of a given size.
///
/// The same number always yields the same document, so that every process can generate its own.
struct Readings: Sendable {
    /// Bytes of a body.
    var size = 300
    /// Whether ids are unordered, like UUIDs; otherwise they ascend.
    var hasRandomIDs = false
    /// Whether the long text comes before the measured values instead of at the end.
    var isNoteFirst = false

    func id(_ number: Int) -> String {
        if !hasRandomIDs { return "reading-" + Format.padded(number, 9) }
        var random = SplitMix(seed: UInt64(number))
        return hex(random.next()) + hex(random.next())
    }

    func body(_ number: Int) -> [UInt8] {
        var random = SplitMix(seed: UInt64(number) ^ 0x6E69_6768)
        let machine = Int(random.next() % 40)
        let second = number % 60
        let minute = number / 60 % 60
        let hour = number / 3600 % 24
        var text = "{\"type\":\"reading\",\"sensor\":\"line-\(machine / 4)-motor-\(machine % 4)-temp\","
        text += "\"at\":\"2026-03-0\(1 + number / 86_400 % 9)T\(Format.padded(hour, 2)):\(Format.padded(minute, 2)):\(Format.padded(second, 2))Z\","
        let head = text
        text = "\"value\":\(60 + random.next() % 60).\(Format.padded(Int(random.next() % 1_000_000), 6)),\"unit\":\"F\","
        text += "\"site\":\"plant-\(random.next() % 50)\",\"seq\":\(number),\"status\":\"\(random.next() % 50 == 0 ? "check" : "ok")\","
        text += "\"quality\":\(random.next() % 256),\"battery\":3.\(Format.padded(Int(random.next() % 100), 2)),"
        text += "\"position\":{\"x\":\(random.next() % 1000).5,\"y\":\(random.next() % 1000).25}"
        let values = text
        let room = size - head.utf8.count - values.utf8.count - "\"note\":\"\",}".utf8.count
        let note = "\"note\":\"\(Self.note(room, &random))\""
        return Array((isNoteFirst ? head + note + "," + values + "}" : head + values + "," + note + "}").utf8)
    }

    /// Words from an operator's log, so that compression works as well as with real documents.
    private static let words = [
        "bearing", "within", "limits", "shift", "inspected", "by", "operator", "lubricated", "fan", "speed", "reduced", "cooling",
        "normal", "noise", "after", "restart", "checked", "belt", "tension", "next", "service", "due", "week", "temperature",
    ]

    private static func note(_ room: Int, _ random: inout SplitMix) -> String {
        var text = ""
        while text.utf8.count < room { text += words[Int(random.next() % UInt64(words.count))] + " " }
        return String(decoding: Array(text.utf8.prefix(max(0, room))), as: UTF8.self)
    }

    private func hex(_ value: UInt64) -> String {
        let digits = String(value, radix: 16)
        return String(repeating: "0", count: 16 - digits.utf8.count) + digits
    }

    /// Documents starting with a given number, generated before anything is measured.
    func make(from first: Int, count: Int) -> [Reading] {
        (first..<first + count).map { Reading(id: id($0), body: body($0)) }
    }
}

struct Reading: Sendable {
    var id: String
    var body: [UInt8]
}

/// Sebastiano Vigna's SplitMix64 generator (public domain algorithm): small, and the same on every machine.
struct SplitMix {
    private var state: UInt64

    init(seed: UInt64) { state = seed }

    mutating func next() -> UInt64 {
        state &+= 0x9E37_79B9_7F4A_7C15
        var value = state
        value = (value ^ value >> 30) &* 0xBF58_476D_1CE4_E5B9
        value = (value ^ value >> 27) &* 0x94D0_49BB_1331_11EB
        return value ^ value >> 31
    }
}
