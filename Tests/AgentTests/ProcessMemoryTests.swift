@testable import Agent
import Testing

@Suite struct ProcessMemoryTests {
    /// The other tests of this process map pages again at the same time, so that not much can be asked for.
    @Test func pagesOfTheProgramAreGivenUpAndComeBack() {
        let before = System.memory
        System.returnProgramPages()
        let after = System.memory
        #expect(before.allocated > 0)
        #expect(before.resident - before.allocated - (after.resident - after.allocated) >= 2 << 20)
        // Their contents are still there.
        #expect("\(System.self)" == "System")
    }

    @Test func pagesOfFilesAreNotCountedAsAllocated() {
        let before = System.memory
        let block = UnsafeMutableRawPointer.allocate(byteCount: 64 << 20, alignment: 16)
        defer { block.deallocate() }
        block.initializeMemory(as: UInt8.self, repeating: 1, count: 64 << 20)
        let grown = System.memory.allocated - before.allocated
        #expect(grown > 48 << 20 && grown < 128 << 20)
        #expect(before.allocated < before.resident)
    }
}
