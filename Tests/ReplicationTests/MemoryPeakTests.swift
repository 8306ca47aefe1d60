import Environment
import Testing

/// When free memory is given back to the system: once, after a peak.
struct MemoryPeakTests {
    @Test func aPeakEndsOnce() {
        var peak = MemoryPeak(limit: 100)
        let looks: [(highest: Int, used: Int, isOver: Bool)] = [
            (24, 0, false), (60, 50, false), (50, 31, false), (31, 20, true), (20, 0, false), (24, 1, false), (90, 2, true), (2, 2, false),
        ]
        for (index, look) in looks.enumerated() {
            #expect(peak.isOver(highest: look.highest, used: look.used, uncounted: 0) == look.isOver, "look \(index)")
        }
    }

    /// Some work is over between two observations, or took more than was counted: what the allocator keeps of that is given back as well, and where
    /// that fails it is not tried again every second.
    @Test func unaccountedMemoryIsGivenBackAsOftenAsItGrows() {
        var peak = MemoryPeak(limit: 100)
        let looks: [(uncounted: Int, isOver: Bool)] = [
            (2, false), (13, false), (14, true), (14, false), (20, false), (26, true), (4, false), (15, false), (16, true), (50, false), (62, true), (30, false),
        ]
        for (index, look) in looks.enumerated() {
            #expect(peak.isOver(highest: 10, used: 0, uncounted: look.uncounted) == look.isOver, "look \(index)")
        }
    }
}
