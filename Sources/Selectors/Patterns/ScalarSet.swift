/// A set of characters, as ranges in ascending order.
struct ScalarSet: Sendable, Equatable {
    private(set) var ranges: [ClosedRange<UInt32>]

    static let digit = ScalarSet([0x30...0x39])
    static let word = ScalarSet([0x30...0x39, 0x41...0x5A, 0x5F...0x5F, 0x61...0x7A])
    static let space = ScalarSet([0x09...0x0D, 0x20...0x20])
    static let lineFeed = ScalarSet([0x0A...0x0A])
    static let everything = ScalarSet([0...0x10FFFF])

    init(_ ranges: [ClosedRange<UInt32>]) {
        var merged: [ClosedRange<UInt32>] = []
        for range in ranges.sorted(by: { $0.lowerBound < $1.lowerBound }) {
            if let last = merged.last, range.lowerBound <= last.upperBound + 1 {
                merged[merged.count - 1] = last.lowerBound...max(last.upperBound, range.upperBound)
            } else {
                merged.append(range)
            }
        }
        self.ranges = merged
    }

    init(_ scalar: UInt32) { ranges = [scalar...scalar] }

    func contains(_ scalar: UInt32) -> Bool {
        if ranges.count == 1 { return ranges[0].contains(scalar) }
        var (low, high) = (0, ranges.count)
        while low < high {
            let middle = (low + high) / 2
            if ranges[middle].contains(scalar) { return true }
            if ranges[middle].upperBound < scalar { low = middle + 1 } else { high = middle }
        }
        return false
    }

    func union(_ other: ScalarSet) -> ScalarSet { ScalarSet(ranges + other.ranges) }

    var complement: ScalarSet {
        var rest: [ClosedRange<UInt32>] = []
        var next: UInt32 = 0
        for range in ranges {
            if range.lowerBound > next { rest.append(next...(range.lowerBound - 1)) }
            next = range.upperBound + 1
        }
        if next <= 0x10FFFF { rest.append(next...0x10FFFF) }
        return ScalarSet(rest)
    }

    /// Includes the other case of each ASCII letter.
    var ignoringCase: ScalarSet {
        var more: [ClosedRange<UInt32>] = []
        func fold(_ letters: ClosedRange<UInt32>, _ move: (UInt32) -> UInt32) {
            for range in ranges where range.overlaps(letters) {
                let common = range.clamped(to: letters)
                more.append(move(common.lowerBound)...move(common.upperBound))
            }
        }
        fold(0x41...0x5A) { $0 + 0x20 }
        fold(0x61...0x7A) { $0 - 0x20 }
        return ScalarSet(ranges + more)
    }
}
