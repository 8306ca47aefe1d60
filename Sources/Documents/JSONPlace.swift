/// Describes a position in a JSON text for an error message.
enum JSONPlace {
    /// Bytes of a pointer that an error message shows.
    static let shown = 120

    /// The pointer to the value that starts at `offset`, or to the object in which a key starts there. Everything before it was accepted.
    static func pointer(to offset: Int, in bytes: UnsafeRawBufferPointer) -> String {
        enum Step {
            case key(UnsafeRawBufferPointer)
            case index(Int)
        }
        /// The path to the current position; one step for each open container, with an empty key for objects of which no key was read.
        var steps: [Step] = []
        var isInValue = true
        var at = 0
        let end = min(offset, bytes.count)
        while at < end {
            switch bytes[at] {
            case 0x7B:
                steps.append(.key(UnsafeRawBufferPointer(start: nil, count: 0)))
                isInValue = false
            case 0x5B:
                steps.append(.index(0))
                isInValue = true
            case 0x7D, 0x5D:
                _ = steps.popLast()
                isInValue = true
            case 0x2C:
                switch steps.last {
                case .index(let index)?: steps[steps.count - 1] = .index(index + 1)
                default: isInValue = false
                }
            case 0x22:
                let first = at + 1
                at = first
                while at < end, bytes[at] != 0x22 { at += bytes[at] == 0x5C ? 2 : 1 }
                if !isInValue, let last = steps.indices.last, at < end {
                    steps[last] = .key(UnsafeRawBufferPointer(rebasing: bytes[first..<at]))
                    isInValue = true
                }
            default: break
            }
            at += 1
        }
        // Before a key, the pointer refers to its object.
        if !isInValue { steps.removeLast() }
        var text: [UInt8] = []
        for step in steps {
            text.append(0x2F)
            switch step {
            case .index(let index): text += Array("\(index)".utf8)
            case .key(let key):
                var plain: [UInt8] = []
                JSONText.appendPlain(key.bindMemory(to: UInt8.self), to: &plain)
                for byte in plain { text += byte == 0x7E ? [0x7E, 0x30] : byte == 0x2F ? [0x7E, 0x31] : [byte] }
            }
            if text.count > shown { break }
        }
        return text.isEmpty ? "" : quoted(text, limit: shown)
    }
}
