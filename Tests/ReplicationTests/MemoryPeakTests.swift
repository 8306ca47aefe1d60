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
            #expect(peak.isOver(highest: look.highest, used: look.used, uncounted: 0) == look.isOver, "look \(index)")
        }
    }

    /// Work that is over between two looks, or that counted as less than it took: what the allocator keeps of it goes as well, and where it does
    /// not go, nobody tries each second.
    @Test func whatIsKeptBesideWhatIsCountedIsGivenBackAsOftenAsItGrows() {
        var peak = MemoryPeak(limit: 100)
        let looks: [(uncounted: Int, isOver: Bool)] = [
            (2, false), (13, false), (14, true), (14, false), (20, false), (26, true), (4, false), (15, false), (16, true), (50, false), (62, true), (30, false),
        ]
        for (index, look) in looks.enumerated() {
            #expect(peak.isOver(highest: 10, used: 0, uncounted: look.uncounted) == look.isOver, "look \(index)")
        }
    }
}
