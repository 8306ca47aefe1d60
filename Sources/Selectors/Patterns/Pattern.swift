/// A regular expression of `$regex`: what of Perl's people use to find texts, matched in time linear to the text. All states go on at once,
/// so that there is nothing to go back to.
///
/// Taken are literals, `.`, classes, `\d \w \s \b`, `^ $ \A \z \Z`, groups, alternatives, `* + ? {m,n}` (also lazy, which finds the same),
/// and the flags `i`, `m` and `s` at the beginning. Characters are Unicode scalars; letters, digits and case are those of ASCII.
package struct Pattern: Sendable {
    package let text: String
    private let program: [PatternStep]

    /// - Throws: ``SelectorError`` that names what is not taken.
    package init(_ text: String) throws(SelectorError) {
        self.text = text
        var parser = PatternParser(text)
        let tree = try parser.parse()
        var compiler = PatternCompiler()
        program = try compiler.compile(tree)
    }

    /// Whether the text has a part that fits.
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
            // It may begin anywhere.
            run.enter(0, place)
            if run.hasMatched { return true }
            guard let here = place.here else { return false }
            cost.take(run.take(here))
            if cost.isOver { return false }
            place = PatternPlace(before: here, here: place.after, after: scalars.next()?.value)
        }
    }
}

/// What is around the place between two characters.
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

/// The states that are alive at one place of a text.
struct PatternRun {
    private let program: [PatternStep]
    /// At most each state once.
    private var alive: [Int] = []
    private var isAlive: [Bool]
    /// Where what was alive goes to; becomes alive in `settle`.
    private var targets: [Int] = []
    private var stack: [Int] = []
    /// States that became alive here, also those that take no character: each of them is work.
    private var entered = 0
    private(set) var hasMatched = false

    init(_ program: [PatternStep]) {
        self.program = program
        isAlive = [Bool](repeating: false, count: program.count)
    }

    /// The state, and those that it leads to without a character, are alive here.
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

    /// - Returns: what that took.
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
