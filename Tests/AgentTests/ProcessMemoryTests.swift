@testable import Agent
import Testing

@Suite struct ProcessMemoryTests {
    /// The other tests of this process map pages again at the same time, so that not much can be asked for, and not each time.
    @Test func pagesOfTheProgramAreGivenUpAndComeBack() {
        let hasGivenUp = (0..<20).contains { _ in
            let before = System.memory
            System.returnProgramPages()
            let after = System.memory
            return before.allocated > 0 && before.resident - before.allocated - (after.resident - after.allocated) >= 2 << 20
        }
        #expect(hasGivenUp)
        // Their contents are still there.
        #expect("\(System.self)" == "System")
    }

    /// Larger than what other tests of this process take for a moment, such as 32 MiB for the hash of a password.
    @Test func pagesOfFilesAreNotCountedAsAllocated() {
        let before = System.memory
        let block = UnsafeMutableRawPointer.allocate(byteCount: 256 << 20, alignment: 16)
        defer { block.deallocate() }
        block.initializeMemory(as: UInt8.self, repeating: 1, count: 256 << 20)
        let grown = System.memory.allocated - before.allocated
        #expect(grown > 128 << 20 && grown < 384 << 20)
        #expect(before.allocated < before.resident)
    }
}
