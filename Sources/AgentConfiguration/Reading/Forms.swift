import Encodings

// The forms that sections consist of.

extension Form where Value == String {
    /// Any non-empty text. Numbers and words like true must be quoted: otherwise 007 would lose its zeros.
    static func text(_ expected: String = "a text") -> Form<String> {
        Form<String>(
            shape: .text(pattern: nil), expected: expected,
            read: { node, reading in
                guard let text = TextRules.text(node, expected: expected, &reading) else { return nil }
                guard !text.isEmpty else {
                    reading.reportMismatch(node, expected: "\(expected), not an empty one")
                    return nil
                }
                return text
            },
            json: { $0.isEmpty ? nil : JSONString.quoted($0) })
    }

    /// A text with a particular syntax.
    static func text(_ syntax: TextSyntax) -> Form<String> {
        Form<String>(
            shape: .text(pattern: syntax.pattern), expected: syntax.expected,
            read: { node, reading in
                guard let text = TextRules.text(node, expected: syntax.expected, &reading) else { return nil }
                guard syntax.accepts(text) else {
                    reading.reportMismatch(node, expected: syntax.expected)
                    return nil
                }
                return text
            },
            json: { $0.isEmpty ? nil : JSONString.quoted($0) })
    }

    /// A path, converted to an absolute one.
    static let path = Form<String>(
        shape: .text(pattern: nil), expected: "a path",
        read: { node, reading in
            guard let path = Form<String>.text("a path").read(node, &reading), !Paths.reportShellSyntax(path, node, &reading) else { return nil }
            return Paths.resolve(path, in: reading.folder)
        })
}

enum TextRules {
    /// The text of a node that must be a text.
    static func text(_ node: ConfigurationNode, expected: String, hidesValue: Bool = false, _ reading: inout Reading) -> String? {
        guard let scalar = node.scalar else {
            reading.reportMismatch(node, expected: expected)
            return nil
        }
        if reading.noteUnresolved(node) { return nil }
        switch scalar.value {
        case .null:
            reading.reportMismatch(node, expected: expected)
            return nil
        case .bool, .integer, .number:
            guard scalar.isExpanded else {
                let found = hidesValue ? ValueQuoting.kind(node) : ValueQuoting.found(node)
                reading.report(at: node.position, "expected \(expected), found \(found); put it in quotes to make it a text")
                return nil
            }
        case .string: break
        }
        guard !scalar.text.utf8.contains(0) else {
            reading.report(at: node.position, "a text must not contain the character NUL")
            return nil
        }
        return scalar.text
    }
}

extension Form where Value == Secret {
    /// A text that is never shown, not even in problems.
    static let secret = Form<Secret>(
        shape: .secret, expected: "a text",
        read: { node, reading in
            guard let text = TextRules.text(node, expected: "a text", hidesValue: true, &reading) else { return nil }
            guard !text.isEmpty else {
                reading.report(at: node.position, "expected a text, found an empty one")
                return nil
            }
            return Secret(text, source: node.scalar?.source, folder: reading.folder)
        })
}

extension Form where Value == Int {
    /// An integer within a range.
    static func integer(_ range: ClosedRange<Int>, _ unit: String = "") -> Form<Int> {
        let bounds = range.upperBound >= 1 << 53 ? "of at least \(range.lowerBound)" : "from \(range.lowerBound) to \(range.upperBound)"
        let expected = "a whole number \(bounds)\(unit.isEmpty ? "" : " (\(unit))")"
        return Form<Int>(
            shape: .integer(range), expected: expected,
            read: { node, reading in
                // A quoted "${PORT}" is a number if it expands to one, because YAML requires the quotes within { }.
                guard let scalar = node.scalar, scalar.style == .plain || scalar.isExpanded,
                    let value = ScalarRules.integer(scalar.text), range.contains(Int(value))
                else {
                    reading.reportMismatch(node, expected: expected)
                    return nil
                }
                return Int(value)
            },
            json: { String($0) })
    }

    static func seconds(_ range: ClosedRange<Int>) -> Form<Int> { integer(range, "seconds") }

    /// A number of bytes: an integer, or one with KiB, MiB or GiB.
    static func bytes(_ range: ClosedRange<Int>) -> Form<Int> {
        let expected = "a size from \(ByteSize.text(range.lowerBound)) to \(ByteSize.text(range.upperBound)), such as 16MiB"
        return Form<Int>(
            shape: .byteSize(range), expected: expected,
            read: { node, reading in
                guard let scalar = node.scalar, let value = ByteSize.parse(scalar.text), range.contains(value) else {
                    reading.reportMismatch(node, expected: expected)
                    return nil
                }
                return value
            },
            json: { String($0) })
    }
}

extension Form where Value == Int {
    /// A zlib compression level, or `off`, which is level 0.
    static let compression: Form<Int> = {
        let expected = "off, or a level from 0 (off) to 9 (small)"
        let level = integer(0...9)
        return Form<Int>(
            shape: .anyOf([.choice(["off"]), level.shape]), expected: expected,
            read: { node, reading in
                guard let scalar = node.scalar, !scalar.isUnresolved, scalar.style == .plain || scalar.isExpanded || scalar.text == "off",
                    let value = scalar.text == "off" ? 0 : ScalarRules.integer(scalar.text), (0...9).contains(value)
                else {
                    reading.reportMismatch(node, expected: expected)
                    return nil
                }
                return Int(value)
            },
            json: { $0 == 0 ? "\"off\"" : String($0) })
    }()

    static let compressionWords =
        "How hard to compress what is sent by the protocol of Couchbase Lite: off, which is 0, or 1 to 9. 1 to 3 are the same; from 4 on it takes several times as "
            + "long, and 260 KiB more memory for each busy connection. The other side decides about what it sends."
}

extension Form where Value == Int {
    static let pongTimeWords =
        "Seconds that the reply to a ping may take before the connection counts as dead; at most heartbeat less one second, whatever is written here."
}

extension Form where Value == [Located<String>] {
    /// One interface, or several in the order in which they are tried.
    static let networkInterfaces: Form<[Located<String>]> = {
        let element = Form<String>.text(.interface).located
        let list = element.list(atLeast: 1, of: "network interfaces")
        return Form<[Located<String>]>(
            shape: .anyOf([element.shape, list.shape]), expected: "\(element.expected), or a list of them",
            read: { node, reading in node.elements == nil ? element.read(node, &reading).map { [$0] } : list.read(node, &reading) })
    }()
}

extension Form where Value == Bool {
    static let boolean = Form<Bool>(
        shape: .boolean, expected: "true or false",
        read: { node, reading in
            guard let scalar = node.scalar, scalar.style == .plain || scalar.isExpanded, let value = ScalarRules.bool(scalar.text) else {
                reading.reportMismatch(node, expected: "true or false")
                return nil
            }
            return value
        },
        json: { $0 ? "true" : "false" })
}

extension Form where Value: RawRepresentable & CaseIterable, Value.RawValue == String {
    /// One of a set of words.
    static var choice: Form<Value> { words() }

    /// - Parameter others: the words that other programs use, for users who know those.
    static func words(called others: [String: Value] = [:]) -> Form<Value> {
        let words = Value.allCases.map(\.rawValue)
        let expected = words.count < 3 ? words.joined(separator: " or ") : "one of " + words.joined(separator: ", ")
        return Form<Value>(
            shape: .choice(words), expected: expected,
            read: { node, reading in
                guard let scalar = node.scalar, !scalar.isUnresolved, let value = Value(rawValue: scalar.text) else {
                    if let scalar = node.scalar, !scalar.isUnresolved, !scalar.isExpanded,
                        let nearest = others[scalar.text]?.rawValue ?? NearestName.nearest(to: scalar.text, among: words)
                    {
                        reading.report(
                            at: node.position, "expected \(expected), found \(ValueQuoting.found(node)); did you mean \"\(nearest)\"?")
                    } else {
                        reading.reportMismatch(node, expected: expected)
                    }
                    return nil
                }
                return value
            },
            json: { JSONString.quoted($0.rawValue) })
    }
}

extension Form where Value: ConfigurationSection {
    static var section: Form<Value> {
        Form<Value>(
            shape: .section(Value.shape), expected: "a mapping", allowsNothing: !Value.keys.contains { $0.isRequired },
            read: { node, reading in Value.read(node, &reading) })
    }
}

extension Form {
    /// A list. Elements that cannot be read are left out, and reported.
    /// - Parameter remedy: what to do instead of using a list that is too short.
    func list(atLeast minimum: Int = 0, of plural: String, else remedy: String = "") -> Form<[Value]> {
        let element = self
        let expected = "a list of \(plural)"
        return Form<[Value]>(
            shape: .list(element.shape, atLeast: minimum), expected: expected, allowsNothing: minimum == 0,
            read: { node, reading in
                guard let elements = node.elements else {
                    if node.scalar != nil, node.scalar?.isUnresolved == false, !Form.isNothing(node) {
                        reading.report(
                            at: node.position,
                            "expected \(expected), found \(ValueQuoting.found(node)); write a list of one element as [ … ] or with a dash")
                    } else {
                        reading.reportMismatch(node, expected: expected)
                    }
                    return nil
                }
                if elements.count < minimum {
                    reading.report(
                        at: node.position,
                        "expected \(expected) with at least \(minimum) of them, found \(elements.count)" + (remedy.isEmpty ? "" : "; \(remedy)"))
                    return nil
                }
                var values: [Value] = []
                values.reserveCapacity(elements.count)
                for (index, node) in elements.enumerated() {
                    if let value = reading.within(index: index, { element.read(node, &$0) }) { values.append(value) }
                }
                return values
            })
    }

    /// A mapping with names that the operator chooses; each value is given its name.
    func map<Element: Sendable>(
        keyedBy syntax: TextSyntax, _ expected: String,
        _ make: @escaping @Sendable (Value, Located<String>, inout Reading) -> Element?
    ) -> Form<[Element]> {
        let value = self
        return Form<[Element]>(
            shape: .map(keyPattern: syntax.pattern, value.shape), expected: expected, allowsNothing: true,
            read: { node, reading in
                guard let entries = node.entries else {
                    reading.reportMismatch(node, expected: expected)
                    return nil
                }
                var elements: [Element] = []
                for entry in entries {
                    let before = reading.failures
                    reading.within(key: entry.key) { reading in
                        if !syntax.accepts(entry.key) {
                            reading.report(at: entry.keyPosition, "expected \(syntax.expected), found \(ValueQuoting.quoted(entry.key))")
                        }
                        guard let value = value.read(entry.value, &reading),
                            let element = make(value, Located(entry.key, at: entry.keyPosition), &reading)
                        else { return }
                        elements.append(element)
                    }
                    if reading.failures > before { reading.damaged.insert(entry.key) }
                }
                return elements
            })
    }

    /// A value that may also be written as a section.
    func or<Section: ConfigurationSection>(
        _ section: Section.Type, _ transform: @escaping @Sendable (Section, ConfigurationNode) -> Value
    ) -> Form<Value> {
        let short = self
        let expected = "\(short.expected), or a mapping with the keys \(Section.keys.map(\.name).joined(separator: ", "))"
        return Form<Value>(
            shape: .anyOf([short.shape, .section(Section.shape)]), expected: expected,
            read: { node, reading in
                switch node.content {
                case .mapping: return Section.read(node, &reading).map { transform($0, node) }
                case .sequence:
                    reading.reportMismatch(node, expected: expected)
                    return nil
                case .scalar: return short.read(node, &reading)
                }
            },
            json: short.json)
    }
}
