/// A parsed regular expression.
indirect enum PatternTree {
    case take(ScalarSet)
    case assert(PatternAssertion)
    case sequence([PatternTree])
    case alternatives([PatternTree])
    /// No `most`: any number.
    case repeated(PatternTree, least: Int, most: Int?)
}

enum PatternAssertion: Sendable {
    case start, end, lineStart, lineEnd, word, notWord
    /// The end, or the position before a final line feed.
    case lastLine
}

/// One state.
enum PatternStep: Sendable {
    case take(ScalarSet)
    case assert(PatternAssertion)
    case jump(Int)
    case either(Int, Int)
    case match
}

/// Compiles a tree into states; counted repetitions are expanded.
struct PatternCompiler {
    private var steps: [PatternStep] = []
    /// Nodes expanded so far, including those that need no state.
    private var visits = 0

    mutating func compile(_ tree: PatternTree) throws(SelectorError) -> [PatternStep] {
        try write(tree)
        try add(.match)
        return steps
    }

    private mutating func add(_ step: PatternStep) throws(SelectorError) {
        steps.append(step)
        guard steps.count <= SelectorLimits.regexStates else { throw Self.tooLarge }
    }

    private static var tooLarge: SelectorError {
        .init("bad_arg", "the regular expression of $regex comes to more than regex_states = \(SelectorLimits.regexStates), with its repetitions written out")
    }

    private mutating func write(_ tree: PatternTree) throws(SelectorError) {
        visits += 1
        guard visits <= 20 * SelectorLimits.regexStates else { throw Self.tooLarge }
        switch tree {
        case .take(let set): try add(.take(set))
        case .assert(let assertion): try add(.assert(assertion))
        case .sequence(let parts): for part in parts { try write(part) }
        case .alternatives(let parts): try write(alternatives: parts)
        case .repeated(let part, let least, let most):
            for _ in 0..<least { try write(part) }
            guard let most else {
                let start = steps.count
                try add(.match)
                try write(part)
                try add(.jump(start))
                steps[start] = .either(start + 1, steps.count)
                return
            }
            var exits: [Int] = []
            for _ in least..<most {
                exits.append(steps.count)
                try add(.match)
                try write(part)
            }
            for exit in exits { steps[exit] = .either(exit + 1, steps.count) }
        }
    }

    private mutating func write(alternatives parts: [PatternTree]) throws(SelectorError) {
        var ends: [Int] = []
        for (index, part) in parts.enumerated() {
            guard index < parts.count - 1 else {
                try write(part)
                break
            }
            let fork = steps.count
            try add(.match)
            try write(part)
            ends.append(steps.count)
            try add(.match)
            steps[fork] = .either(fork + 1, steps.count)
        }
        for end in ends { steps[end] = .jump(steps.count) }
    }
}
