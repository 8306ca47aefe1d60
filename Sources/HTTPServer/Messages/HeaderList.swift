/// HTTP header fields in order; names are compared case-insensitively, as bytes.
public struct HeaderList: Sendable, Equatable, ExpressibleByDictionaryLiteral, RandomAccessCollection {
    public struct Field: Sendable, Equatable {
        public var name: String
        public var value: String

        public init(name: String, value: String) {
            self.name = name
            self.value = value
        }
    }

    private var fields: [Field] = []

    public init() {}

    public init(dictionaryLiteral elements: (String, String)...) {
        fields = elements.map { Field(name: $0.0, value: $0.1) }
    }

    public init(_ elements: some Sequence<(name: String, value: String)>) {
        fields = elements.map { Field(name: $0.name, value: $0.value) }
    }

    public var startIndex: Int { fields.startIndex }
    public var endIndex: Int { fields.endIndex }
    public subscript(position: Int) -> Field { fields[position] }

    public mutating func add(_ name: String, _ value: String) {
        fields.append(Field(name: name, value: value))
    }

    /// Replaces all fields with that name.
    public mutating func set(_ name: String, _ value: String) {
        remove(name)
        add(name, value)
    }

    public mutating func remove(_ name: String) {
        fields.removeAll { Self.sameName($0.name, name) }
    }

    public func contains(_ name: String) -> Bool {
        fields.contains { Self.sameName($0.name, name) }
    }

    /// The value of the first field with that name.
    public func first(_ name: String) -> String? {
        fields.first { Self.sameName($0.name, name) }?.value
    }

    /// The elements of the comma-separated lists in all fields with that name, trimmed, without empty ones.
    public func list(_ name: String) -> [String] {
        var result: [String] = []
        for field in fields where Self.sameName(field.name, name) {
            for part in field.value.utf8.split(separator: UInt8(ascii: ",")) {
                let trimmed = Self.trim(part)
                if !trimmed.isEmpty { result.append(String(Substring(trimmed))) }
            }
        }
        return result
    }

    package static func sameName(_ a: String, _ b: String) -> Bool {
        a.utf8.count == b.utf8.count && zip(a.utf8, b.utf8).allSatisfy { lower($0) == lower($1) }
    }

    private static func lower(_ byte: UInt8) -> UInt8 {
        byte >= 0x41 && byte <= 0x5A ? byte | 0x20 : byte
    }

    package static func trim(_ text: Substring.UTF8View) -> Substring.UTF8View {
        var rest = text
        while let byte = rest.first, byte == 0x20 || byte == 0x09 { rest.removeFirst() }
        while let byte = rest.last, byte == 0x20 || byte == 0x09 { rest.removeLast() }
        return rest
    }

    /// Whether the field can be part of a message without ending its line or its header: the name is a token, and the value
    /// contains no control characters.
    package static func isSendable(_ name: String, _ value: String) -> Bool {
        guard !name.isEmpty else { return false }
        for byte in name.utf8 {
            switch byte {
            case 0x30...0x39, 0x41...0x5A, 0x61...0x7A: continue
            case UInt8(ascii: "!"), UInt8(ascii: "#"), UInt8(ascii: "$"), UInt8(ascii: "%"), UInt8(ascii: "&"), UInt8(ascii: "'"),
                UInt8(ascii: "*"), UInt8(ascii: "+"), UInt8(ascii: "-"), UInt8(ascii: "."), UInt8(ascii: "^"), UInt8(ascii: "_"),
                UInt8(ascii: "`"), UInt8(ascii: "|"), UInt8(ascii: "~"):
                continue
            default: return false
            }
        }
        return value.utf8.allSatisfy { $0 >= 0x20 && $0 != 0x7F || $0 == 0x09 }
    }
}
