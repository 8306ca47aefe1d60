/// Parses a regular expression.
struct PatternParser {
    private let scalars: [UInt32]
    private var at = 0
    private var depth = 0
    private var ignoresCase = false
    private var dotIsAll = false
    private var isMultiline = false

    init(_ text: String) { scalars = text.unicodeScalars.map(\.value) }

    mutating func parse() throws(SelectorError) -> PatternTree {
        try takeFlags()
        let tree = try alternatives()
        guard at == scalars.count else { throw problem("a \")\" without its \"(\"") }
        return tree
    }

    private func problem(_ what: String) -> SelectorError {
        SelectorError("bad_arg", "Bad argument for operator $regex: \(what) at character \(at + 1)")
    }

    private func notTaken(_ construct: String) -> SelectorError {
        SelectorError(
            "bad_arg",
            "Bad argument for operator $regex: \(construct) at character \(at + 1) is not supported here; "
                + "literals, ., classes, groups, |, ^ $ \\b, \\d \\w \\s, * + ? {m,n} and (?ims) at the beginning are")
    }

    // MARK: - Reading

    private var next: UInt32? { at < scalars.count ? scalars[at] : nil }

    private func isNext(_ text: String, from: Int? = nil) -> Bool { scalars[(from ?? at)...].starts(with: text.unicodeScalars.map(\.value)) }

    private mutating func accept(_ text: String) -> Bool {
        guard isNext(text) else { return false }
        at += text.unicodeScalars.count
        return true
    }

    /// `(?i)` and similar flags, at the very beginning.
    private mutating func takeFlags() throws(SelectorError) {
        guard isNext("(?"), let end = scalars.firstIndex(of: Self.code(")")), end > 2 else { return }
        let letters = scalars[2..<end]
        guard letters.allSatisfy({ (0x61...0x7A).contains($0) }) else { return }
        for letter in letters {
            switch letter {
            case Self.code("i"): ignoresCase = true
            case Self.code("m"): isMultiline = true
            case Self.code("s"): dotIsAll = true
            default: throw notTaken("a flag other than i, m and s")
            }
        }
        at = end + 1
    }

    static func code(_ scalar: Unicode.Scalar) -> UInt32 { scalar.value }

    private mutating func alternatives() throws(SelectorError) -> PatternTree {
        depth += 1
        defer { depth -= 1 }
        guard depth <= SelectorLimits.regexDepth else { throw problem("groups nested deeper than \(SelectorLimits.regexDepth) levels") }
        var parts = [try sequence()]
        while accept("|") { parts.append(try sequence()) }
        return parts.count == 1 ? parts[0] : .alternatives(parts)
    }

    private mutating func sequence() throws(SelectorError) -> PatternTree {
        var parts: [PatternTree] = []
        while let scalar = next, scalar != Self.code("|"), scalar != Self.code(")") {
            parts.append(try repetitions(of: try atom()))
        }
        return .sequence(parts)
    }

    private mutating func repetitions(of atom: PatternTree) throws(SelectorError) -> PatternTree {
        guard let (least, most) = try bounds() else { return atom }
        if next == Self.code("+") { throw notTaken("a possessive repetition") }
        // A lazy quantifier matches the same texts.
        _ = accept("?")
        if case .assert = atom { throw problem("nothing that could be repeated") }
        let tree = PatternTree.repeated(atom, least: least, most: most)
        if try bounds() != nil { throw problem("nothing that could be repeated") }
        return tree
    }

    /// The bounds of a repetition.
    private mutating func bounds() throws(SelectorError) -> (Int, Int?)? {
        if accept("*") { return (0, nil) }
        if accept("+") { return (1, nil) }
        if accept("?") { return (0, 1) }
        guard let braces = braces() else { return nil }
        at = braces.end
        let limit = SelectorLimits.regexStates
        guard braces.least <= limit, braces.most ?? 0 <= limit else { throw problem("a repetition of more than regex_states = \(limit)") }
        if let most = braces.most, most < braces.least { throw problem("a repetition whose bounds are not in order") }
        return (braces.least, braces.most)
    }

    /// `{m}`, `{m,}` or `{m,n}`; any other braces are literals.
    private func braces() -> (least: Int, most: Int?, end: Int)? {
        guard isNext("{"), let end = scalars[at...].firstIndex(of: Self.code("}")), end - at <= 16 else { return nil }
        let parts = scalars[(at + 1)..<end].split(separator: Self.code(","), omittingEmptySubsequences: false)
        let numbers = parts.map { part in
            part.allSatisfy { ScalarSet.digit.contains($0) } ? Int(part.map { "\($0 - 0x30)" }.joined()) : nil
        }
        guard parts.count <= 2, let least = numbers[0] else { return nil }
        if parts.count == 1 { return (least, least, end + 1) }
        if parts[1].isEmpty { return (least, nil, end + 1) }
        guard let most = numbers[1] else { return nil }
        return (least, most, end + 1)
    }

    // MARK: - Atoms

    private mutating func atom() throws(SelectorError) -> PatternTree {
        guard let scalar = next else { return .sequence([]) }
        switch Unicode.Scalar(scalar) ?? " " {
        case "(": return try group()
        case "[": return .take(try charactersInBrackets())
        case ".":
            at += 1
            return .take(dotIsAll ? .everything : ScalarSet.lineFeed.complement)
        case "^":
            at += 1
            return .assert(isMultiline ? .lineStart : .start)
        case "$":
            at += 1
            return .assert(isMultiline ? .lineEnd : .lastLine)
        case "*", "+", "?": throw problem("nothing that could be repeated")
        case "\\": return try escape()
        default:
            if braces() != nil { throw problem("nothing that could be repeated") }
            at += 1
            return .take(literal(scalar))
        }
    }

    private func literal(_ scalar: UInt32) -> ScalarSet { ignoresCase ? ScalarSet(scalar).ignoringCase : ScalarSet(scalar) }

    private mutating func group() throws(SelectorError) -> PatternTree {
        if isNext("(*") { throw notTaken("a verb") }
        if isNext("(?"), !isNext("(?:") {
            for (form, name) in [
                ("(?=", "a lookahead"), ("(?!", "a lookahead"), ("(?<=", "a lookbehind"), ("(?<!", "a lookbehind"), ("(?>", "an atomic group"),
                ("(?#", "a comment"), ("(?P", "a named group"), ("(?<", "a named group"), ("(?'", "a named group"), ("(?R", "a recursion"),
                ("(?(", "a conditional group"), ("(?|", "a branch reset"),
            ] where isNext(form) { throw notTaken(name) }
            throw notTaken("a flag within the expression")
        }
        if !accept("(?:") { at += 1 }
        let tree = try alternatives()
        guard accept(")") else { throw problem("a \"(\" without its \")\"") }
        // A group can be repeated even if it contains only an assertion.
        return .sequence([tree])
    }

    private mutating func escape() throws(SelectorError) -> PatternTree {
        let start = at
        for (form, assertion) in [
            ("\\b", PatternAssertion.word), ("\\B", .notWord), ("\\A", .start), ("\\z", .end), ("\\Z", .lastLine),
        ] where accept(form) { return .assert(assertion) }
        guard let set = try escapedCharacters() else {
            at = start
            throw notTaken("the escape \\\(start + 1 < scalars.count ? String(Unicode.Scalar(scalars[start + 1]).map(Character.init) ?? " ") : "")")
        }
        return .take(ignoresCase ? set.ignoringCase : set)
    }

    /// The characters that an escape stands for, inside or outside a class; nil for other escapes.
    private mutating func escapedCharacters() throws(SelectorError) -> ScalarSet? {
        at += 1
        guard let scalar = next, let character = Unicode.Scalar(scalar) else { throw problem("a \\ with nothing behind it") }
        at += 1
        switch character {
        case "d": return .digit
        case "D": return ScalarSet.digit.complement
        case "w": return .word
        case "W": return ScalarSet.word.complement
        case "s": return .space
        case "S": return ScalarSet.space.complement
        case "n": return ScalarSet(0x0A)
        case "r": return ScalarSet(0x0D)
        case "t": return ScalarSet(0x09)
        case "f": return ScalarSet(0x0C)
        case "e": return ScalarSet(0x1B)
        case "a": return ScalarSet(0x07)
        case "x": return ScalarSet(try hexadecimal())
        default:
            // Escaped letters and digits have special meanings; other escaped characters stand for themselves.
            return ScalarSet.word.contains(scalar) && scalar != Self.code("_") ? nil : ScalarSet(scalar)
        }
    }

    /// `\xHH` or `\x{H…}`.
    private mutating func hexadecimal() throws(SelectorError) -> UInt32 {
        let isBraced = accept("{")
        var value: UInt32 = 0
        var digits = 0
        while digits < (isBraced ? 6 : 2), let scalar = next, let digit = Unicode.Scalar(scalar).flatMap({ Character($0).hexDigitValue }) {
            value = value << 4 | UInt32(digit)
            digits += 1
            at += 1
        }
        if isBraced, !accept("}") { throw problem("\\x{ without its }") }
        guard value <= 0x10FFFF else { throw problem("a character beyond Unicode") }
        return value
    }

    // MARK: - Classes

    private mutating func charactersInBrackets() throws(SelectorError) -> ScalarSet {
        at += 1
        let isNegated = accept("^")
        var found = ScalarSet([])
        var isFirst = true
        while true {
            guard let scalar = next else { throw problem("a \"[\" without its \"]\"") }
            if scalar == Self.code("]"), !isFirst { break }
            isFirst = false
            if isNext("[:") || isNext("[.") || isNext("[=") { throw notTaken("a named class of characters") }
            let low = try classMember()
            guard isNext("-"), at + 1 < scalars.count, scalars[at + 1] != Self.code("]"), let first = low.only else {
                found = found.union(low)
                continue
            }
            at += 1
            let high = try classMember()
            guard let last = high.only else {
                // `a-\d`: the dash is a literal.
                found = found.union(low).union(high).union(ScalarSet(Self.code("-")))
                continue
            }
            guard first <= last else { throw problem("a range whose bounds are not in order") }
            found = found.union(ScalarSet([first...last]))
        }
        at += 1
        if ignoresCase { found = found.ignoringCase }
        return isNegated ? found.complement : found
    }

    private mutating func classMember() throws(SelectorError) -> ScalarSet {
        guard let scalar = next else { throw problem("a \"[\" without its \"]\"") }
        guard scalar == Self.code("\\") else {
            at += 1
            return ScalarSet(scalar)
        }
        if accept("\\b") { return ScalarSet(0x08) }
        guard let set = try escapedCharacters() else {
            at -= 1
            throw notTaken("an escape in a class")
        }
        return set
    }
}

extension ScalarSet {
    /// The only character in the set, if there is just one.
    fileprivate var only: UInt32? {
        guard ranges.count == 1, ranges[0].lowerBound == ranges[0].upperBound else { return nil }
        return ranges[0].lowerBound
    }
}
