import LuaRuntime

/// `nightjar.state` of one plugin: values by key, of limited size. Independent of how they are stored.
package struct PluginStateTable: Sendable, Equatable {
    /// All keys and values as JSON (`state bytes`). They are read and written as one file, and are many times larger than a counter or a few
    /// timestamps.
    package static let maximumBytes = 64 << 10
    /// The number of keys (`state keys`).
    package static let maximumKeys = 256
    /// The size of a key in bytes (`state key bytes`).
    package static let maximumKeyBytes = 100

    /// Keyed by the key's bytes: as in Lua, two encodings of the same accented letter are different keys.
    private var values: [[UInt8]: (value: LuaValue, bytes: Int)] = [:]
    private var used = 0

    package init() {}

    /// `.missing` if nothing is stored.
    package func read(_ key: String) -> LuaValue { values[Array(key.utf8)]?.value ?? .missing }

    /// Stores a value; `.missing` removes it. A refused write changes nothing.
    package mutating func write(_ key: String, _ value: LuaValue) throws(PluginServiceRefusal) {
        let name = Array(key.utf8)
        let old = values[name]?.bytes ?? 0
        guard value != .missing else {
            values[name] = nil
            used -= old
            return
        }
        guard !key.isEmpty, key.utf8.count <= Self.maximumKeyBytes else {
            throw PluginServiceRefusal("a state key has 1 to \(Self.maximumKeyBytes) bytes (limit state key bytes), not \(key.utf8.count)")
        }
        guard old > 0 || values.count < Self.maximumKeys else {
            throw PluginServiceRefusal("nightjar.state has \(values.count) keys already (limit state keys = \(Self.maximumKeys))")
        }
        let bytes = key.utf8.count + value.jsonBytes.count + 4
        guard used - old + bytes <= Self.maximumBytes else {
            throw PluginServiceRefusal(
                "nightjar.state would have \(used - old + bytes) bytes of JSON, more than \(Self.maximumBytes) (limit state bytes)")
        }
        values[name] = (value, bytes)
        used += bytes - old
    }

    /// The whole table as an object, keys in ascending order.
    package var json: [UInt8] {
        LuaValue.members(
            values.sorted { $0.key.lexicographicallyPrecedes($1.key) }.map { (String(decoding: $0.key, as: UTF8.self), $0.value.value) }
        ).jsonBytes
    }

    /// Reads the output of `json`; nil if it is not such an object or too large.
    package init?(json: [UInt8]) {
        guard case .object(let members)? = LuaValue(json: json) else { return nil }
        for member in members {
            guard (try? write(member.key, member.value)) != nil else { return nil }
        }
    }

    package static func == (left: Self, right: Self) -> Bool { left.json == right.json }
}
