import DocumentStore
import Testing

@testable import Agent

/// Caches of database pages: many databases together take no more than a few do.
@Suite struct PageCacheTests {
    private func caches(databases: Int, memory: Int) -> (writer: Int, reader: Int, all: Int) {
        var options = DatabaseOptions()
        options.sharePageCaches(databases: databases, memory: memory)
        return (options.writerCacheBytes, options.readerCacheBytes, databases * (options.writerCacheBytes + options.readers * options.readerCacheBytes))
    }

    @Test func aFewDatabasesHaveTheWholeCache() {
        for databases in 1...5 {
            let caches = caches(databases: databases, memory: 64 << 20)
            #expect(caches.writer == 8 << 20 && caches.reader == 2 << 20)
        }
    }

    @Test func manyDivideIt() {
        #expect(caches(databases: 20, memory: 64 << 20).all <= 64 << 20)
        #expect(caches(databases: 8, memory: 8 << 20).all <= 8 << 20)
        #expect(caches(databases: 1, memory: 8 << 20).all <= 8 << 20)
        // However many there are, each has enough to get on.
        let least = caches(databases: 1_000, memory: 8 << 20)
        #expect(least.writer == 512 << 10 && least.reader == 128 << 10)
    }
}
