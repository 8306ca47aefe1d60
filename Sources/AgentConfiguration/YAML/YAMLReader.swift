import CYAML
import Encodings

/// Reads one YAML document into nodes, using libyaml's events.
///
/// Refused, each with its position: more than one document, anchors and aliases (a few lines of them can expand to gigabytes), tags, keys that are
/// not scalars, duplicate keys.
struct YAMLReader: ~Copyable {
    private let file: String
    /// On the heap, because libyaml keeps pointers to it.
    private let parser: UnsafeMutablePointer<yaml_parser_t>
    private var problems: ProblemList
    private var stack: [Open] = []
    private var nodeCount = 0
    private var root: ConfigurationNode?

    /// A list or mapping whose end has not been reached.
    private struct Open {
        var position: SourcePosition
        var isMapping: Bool
        var elements: [ConfigurationNode] = []
        var entries: [ConfigurationNode.Entry] = []
        /// The key whose value comes next.
        var key: (text: String, position: SourcePosition)?
        /// Where each key first occurred. As bytes: YAML keys are not Unicode-normalised.
        var keyPositions: [[UInt8]: SourcePosition] = [:]
    }

    /// Ends the reading; the problem is in the list.
    private struct Stop: Error {}

    private init(file: String, parser: UnsafeMutablePointer<yaml_parser_t>) {
        self.file = file
        self.parser = parser
        problems = ProblemList(file: file)
    }

    /// Reads a whole file. The node is nil if the document is empty or cannot be read.
    static func read(_ bytes: [UInt8], file: String, problems: inout ProblemList) -> ConfigurationNode? {
        guard bytes.count <= Limits.fileBytes else {
            problems.report(file: "the file is larger than \(Limits.fileBytes) bytes")
            return nil
        }
        if bytes.starts(with: [0xFF, 0xFE]) || bytes.starts(with: [0xFE, 0xFF]) {
            problems.report(file: "the file is UTF-16; save it as UTF-8")
            return nil
        }
        let skipped = bytes.starts(with: [0xEF, 0xBB, 0xBF]) ? 3 : 0

        let parser = UnsafeMutablePointer<yaml_parser_t>.allocate(capacity: 1)
        defer { parser.deallocate() }
        guard yaml_parser_initialize(parser) == 1 else {
            problems.report(file: "out of memory")
            return nil
        }
        defer { yaml_parser_delete(parser) }

        return bytes.withUnsafeBufferPointer { buffer in
            let input = UnsafeBufferPointer(rebasing: buffer[skipped...])
            yaml_parser_set_encoding(parser, YAML_UTF8_ENCODING)
            // libyaml asserts a non-null pointer even for empty input.
            guard let start = input.baseAddress, !input.isEmpty else { return nil }
            yaml_parser_set_input_string(parser, start, input.count)
            var reader = YAMLReader(file: file, parser: parser)
            let node = try? reader.document(input)
            problems.append(reader.problems)
            return node ?? nil
        }
    }

    private mutating func document(_ input: UnsafeBufferPointer<UInt8>) throws(Stop) -> ConfigurationNode? {
        var documents = 0
        while true {
            var event = yaml_event_t()
            guard yaml_parser_parse(parser, &event) == 1 else { throw syntaxError(input) }
            defer { yaml_event_delete(&event) }
            switch event.type {
            case YAML_DOCUMENT_START_EVENT:
                documents += 1
                if documents > 1 { throw stop(event.start_mark, "a second document begins here; a configuration is one document") }
            case YAML_STREAM_END_EVENT:
                return root
            case YAML_ALIAS_EVENT:
                throw stop(event.start_mark, "aliases (*name) are not supported; write the value out")
            case YAML_SCALAR_EVENT:
                let scalar = event.data.scalar
                try refuse(anchor: scalar.anchor, tag: scalar.tag, at: event.start_mark)
                let text = String(decoding: UnsafeBufferPointer(start: scalar.value, count: scalar.length), as: UTF8.self)
                try take(scalar: text, style: style(scalar.style), at: event.start_mark)
            case YAML_SEQUENCE_START_EVENT:
                try refuse(anchor: event.data.sequence_start.anchor, tag: event.data.sequence_start.tag, at: event.start_mark)
                try open(isMapping: false, at: event.start_mark)
            case YAML_MAPPING_START_EVENT:
                try refuse(anchor: event.data.mapping_start.anchor, tag: event.data.mapping_start.tag, at: event.start_mark)
                try open(isMapping: true, at: event.start_mark)
            case YAML_SEQUENCE_END_EVENT, YAML_MAPPING_END_EVENT:
                close()
            default:
                break  // stream start, document end
            }
        }
    }

    private mutating func open(isMapping: Bool, at mark: yaml_mark_t) throws(Stop) {
        try count(mark)
        if let top = stack.last, top.isMapping, top.key == nil {
            throw stop(mark, "a key must be a single value, not a list or a mapping")
        }
        guard stack.count < Limits.depth else { throw stop(mark, "nested more than \(Limits.depth) levels deep") }
        stack.append(Open(position: position(mark), isMapping: isMapping))
    }

    private mutating func close() {
        guard let top = stack.popLast() else { return }
        add(ConfigurationNode(top.isMapping ? .mapping(top.entries) : .sequence(top.elements), at: top.position))
    }

    private mutating func take(scalar text: String, style: ConfigurationNode.Style, at mark: yaml_mark_t) throws(Stop) {
        try count(mark)
        let position = position(mark)
        // In place: copying the open mapping would cost as much as all keys before this one.
        let top = stack.count - 1
        if top >= 0, stack[top].isMapping, stack[top].key == nil {
            let bytes = Array(text.utf8)
            if let first = stack[top].keyPositions[bytes] {
                problems.report(
                    at: position,
                    "the key \(ValueQuoting.quoted(text)) appears a second time; the first is at line \(first.line), column \(first.column)")
            } else {
                stack[top].keyPositions[bytes] = position
            }
            stack[top].key = (text, position)
        } else {
            add(ConfigurationNode(.scalar(.init(text: text, style: style)), at: position))
        }
    }

    /// Adds a finished node to its parent.
    private mutating func add(_ node: ConfigurationNode) {
        guard !stack.isEmpty else { root = node; return }
        let top = stack.count - 1
        guard stack[top].isMapping else { stack[top].elements.append(node); return }
        guard let key = stack[top].key else { return }
        stack[top].key = nil
        // For a duplicate key (reported above) the first value counts, so that keys stay unique.
        guard stack[top].keyPositions[Array(key.text.utf8)] == key.position else { return }
        stack[top].entries.append(.init(key: key.text, keyPosition: key.position, value: node))
    }

    private mutating func count(_ mark: yaml_mark_t) throws(Stop) {
        nodeCount += 1
        if nodeCount > Limits.nodes { throw stop(mark, "more than \(Limits.nodes) keys and values") }
    }

    private mutating func refuse(
        anchor: UnsafeMutablePointer<yaml_char_t>?, tag: UnsafeMutablePointer<yaml_char_t>?, at mark: yaml_mark_t
    ) throws(Stop) {
        if anchor != nil { throw stop(mark, "anchors (&name) are not supported; write the value out where it is used") }
        if tag != nil { throw stop(mark, "tags (!name) are not supported; quote the value to make it a text") }
    }

    private mutating func stop(_ mark: yaml_mark_t, _ message: String) -> Stop {
        problems.report(at: position(mark), message)
        return Stop()
    }

    private func position(_ mark: yaml_mark_t) -> SourcePosition {
        SourcePosition(file: file, line: mark.line + 1, column: mark.column + 1)
    }

    private func style(_ style: yaml_scalar_style_t) -> ConfigurationNode.Style {
        switch style {
        case YAML_SINGLE_QUOTED_SCALAR_STYLE: .singleQuoted
        case YAML_DOUBLE_QUOTED_SCALAR_STYLE: .doubleQuoted
        case YAML_LITERAL_SCALAR_STYLE: .literal
        case YAML_FOLDED_SCALAR_STYLE: .folded
        default: .plain
        }
    }

    /// Converts libyaml's error.
    private mutating func syntaxError(_ input: UnsafeBufferPointer<UInt8>) -> Stop {
        let text = parser.pointee.problem.map { String(cString: $0) } ?? "cannot be read"
        switch parser.pointee.error {
        case YAML_READER_ERROR:
            // The reader is ahead of the scanner and only knows an offset.
            let offset = min(parser.pointee.problem_offset, input.count)
            let value = parser.pointee.problem_value
            let shown = value >= 0 ? " (0x\(String(value, radix: 16, uppercase: true)))" : ""
            problems.report(at: position(offset: offset, in: input), "\(text)\(shown); the file must be UTF-8 text")
        case YAML_MEMORY_ERROR:
            problems.report(file: "out of memory")
        default:
            let mark = parser.pointee.problem_mark
            if text.holds("tab character") || text.holds("cannot start any token") && isTab(mark, input) {
                problems.report(at: position(mark), "syntax: a tab stands here; YAML is indented with spaces")
                return Stop()
            }
            var message = "syntax: \(text)"
            if let context = parser.pointee.context.map({ String(cString: $0) }) {
                message += " \(context)"
                let begin = parser.pointee.context_mark
                if begin.line != parser.pointee.problem_mark.line { message += " that begins at line \(begin.line + 1), column \(begin.column + 1)" }
            }
            problems.report(at: position(parser.pointee.problem_mark), message)
        }
        return Stop()
    }

    private func isTab(_ mark: yaml_mark_t, _ input: UnsafeBufferPointer<UInt8>) -> Bool {
        let lines = input.split(separator: UInt8(ascii: "\n"), maxSplits: mark.line + 1, omittingEmptySubsequences: false)
        // Columns count characters; before an invalid tab there are only blanks.
        return lines.count > mark.line && lines[mark.line].dropFirst(mark.column).first == UInt8(ascii: "\t")
    }

    private func position(offset: Int, in input: UnsafeBufferPointer<UInt8>) -> SourcePosition {
        var line = 1
        var column = 1
        for byte in input[..<offset] {
            if byte == UInt8(ascii: "\n") {
                line += 1
                column = 1
            } else if byte & 0xC0 != 0x80 {  // count characters, not their continuation bytes
                column += 1
            }
        }
        return SourcePosition(file: file, line: line, column: column)
    }
}
