import Environment
import Testing

@testable import Replication

/// The one number that is told for `limits.memory`.
@Suite("What limits.memory should be set to")
struct MemorySettingTests {
    @Test("it is enough for the document whichever way it comes or goes", arguments: [1_000_000, 2 << 20, 5_000_019, 8 << 20, 12_000_134, 20 << 20])
    func everyWay(_ size: Int) {
        let setting = MemoryBudget.setting(forDocument: size)
        let memory = MemoryBudget(limit: setting)
        for caution in [nil, MemoryCaution.none] {
            let limits = ReplicationLimits().within(memory, caution)
            #expect(limits.memoryForDocuments?.largestDocument ?? .max >= size, "\(setting)")
            #expect(limits.largestGivenBody ?? .max >= size, "\(setting)")
        }
        // As CouchDB's answers, and as the body of a request.
        #expect(setting / 8 * 3 >= size)
    }

    @Test("where less is taken at a time than the memory usually allows, it is more than there is now")
    func cautious() {
        let memory = DocumentMemory(limit: 64 << 20, largestDocument: 8 << 20, isRequested: true)
        #expect(memory.limit(forDocument: 9 << 20) > 64 << 20)
    }
}
