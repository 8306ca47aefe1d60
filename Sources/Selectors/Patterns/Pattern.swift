/// A regular expression of `$regex`: the part of Perl's syntax that is used to find texts, matched in time linear in the length of the text. All
/// states advance simultaneously, so there is no backtracking.
///
/// Supported are literals, `.`, classes, `\d \w \s \b`, `^ $ \A \z \Z`, groups, alternatives, `* + ? {m,n}` (also lazy, which matches the same
/// texts), and the flags `i`, `m` and `s` at the beginning. Characters are Unicode scalars; letters, digits and case are those of ASCII.
package struct Pattern: Sendable {
    package let text: String
    private let program: [PatternStep]

    /// - Throws: ``SelectorError`` naming what is not supported.
    package init(_ text: String) throws(SelectorError) {
        self.text = text
        var parser = PatternParser(text)
        let tree = try parser.parse()
        var compiler = PatternCompiler()
        program = try compiler.compile(tree)
    }

    /// Whether any part of the text matches.
    package func matches(_ text: String) -> Bool {
        var run = MatchRun()
        return matches(text, &run)
    }

    func matches(_ text: String, _ cost: inout MatchRun) -> Bool {
        guard text.utf8.count <= SelectorLimits.regexTextBytes else { return false }
        var run = PatternRun(program)
        var scalars = text.unicodeScalars.makeIterator()
        var place = PatternPlace(before: nil, here: scalars.next()?.value, after: scalars.next()?.value)
        while true {
            run.settle(place)
            // A match may start anywhere.
            run.enter(0, place)
            if run.hasMatched { return true }
            guard let here = place.here else { return false }
            cost.take(run.take(here))
            if cost.isOver { return false }
            place = PatternPlace(before: here, here: place.after, after: scalars.next()?.value)
        }
    }
}

/// The surroundings of a position between two characters.
struct PatternPlace {
    var before: UInt32?
    var here: UInt32?
    var after: UInt32?

    func holds(_ assertion: PatternAssertion) -> Bool {
        switch assertion {
        case .start: before == nil
        case .lineStart: before == nil || before == 0x0A && here != nil
        case .end: here == nil
        case .lastLine: here == nil || here == 0x0A && after == nil
        case .lineEnd: here == nil || here == 0x0A
        case .word: isWord(before) != isWord(here)
        case .notWord: isWord(before) == isWord(here)
        }
    }

    private func isWord(_ scalar: UInt32?) -> Bool { scalar.map { ScalarSet.word.contains($0) } ?? false }
}

/// The active states at one position of a text.
struct PatternRun {
    private let program: [PatternStep]
    /// Contains each state at most once.
    private var alive: [Int] = []
    private var isAlive: [Bool]
    /// The successors of the active states; they become active in `settle`.
    private var targets: [Int] = []
    private var stack: [Int] = []
    /// Number of states activated here, including those that consume no character: each of them costs time.
    private var entered = 0
    private(set) var hasMatched = false

    init(_ program: [PatternStep]) {
        self.program = program
        isAlive = [Bool](repeating: false, count: program.count)
    }

    /// Activates the state here, and those reachable without consuming a character.
    mutating func enter(_ state: Int, _ place: PatternPlace) {
        stack.append(state)
        while let state = stack.popLast() {
            guard !isAlive[state] else { continue }
            isAlive[state] = true
            entered += 1
            switch program[state] {
            case .match: hasMatched = true
            case .jump(let target): stack.append(target)
            case .either(let one, let other):
                stack.append(other)
                stack.append(one)
            case .assert(let assertion): if place.holds(assertion) { stack.append(state + 1) }
            case .take: alive.append(state)
            }
        }
    }

    /// - Returns: the cost in steps.
    mutating func take(_ scalar: UInt32) -> Int {
        let steps = 1 + entered
        entered = 0
        targets.removeAll(keepingCapacity: true)
        for state in alive {
            if case .take(let set) = program[state], set.contains(scalar) { targets.append(state + 1) }
        }
        alive.removeAll(keepingCapacity: true)
        for index in isAlive.indices { isAlive[index] = false }
        return steps
    }

    mutating func settle(_ place: PatternPlace) {
        for state in targets { enter(state, place) }
    }
}
