import Environment
import Testing

/// When free memory is given back: once, after a time of much memory.
struct MemoryPeakTests {
    @Test func aTimeOfMuchMemoryIsOverOnce() {
        var peak = MemoryPeak(limit: 100)
        let looks: [(highest: Int, used: Int, isOver: Bool)] = [
            (24, 0, false), (60, 50, false), (50, 31, false), (31, 20, true), (20, 0, false), (24, 1, false), (90, 2, true), (2, 2, false),
        ]
        for (index, look) in looks.enumerated() {
            #expect(peak.isOver(highest: look.highest, used: look.used) == look.isOver, "look \(index)")
        }
    }
}
