import Glibc

/// One-shot replications of the same documents: between two servers of the same kind, and into PouchDB.
extension CouchScenario {
    func measureReplication(_ peer: CouchPeer, _ scratch: Scratch, _ report: inout Report) async throws {
        let readings = Readings().make(from: 0, count: replicated)
        let source = try CouchAgent(agent, folder: "\(scratch.path)/source")
        try source.database.load(readings)
        var (pairs, pouches) = (CouchTimes(), CouchTimes())
        try await peer.withDatabase("source") { theirs in
            try theirs.load(readings)
            for round in 0..<rounds {
                if rows.contains(.replication) {
                    let ours = try pull(from: source.database, into: "\(scratch.path)/target-\(round).nightjar")
                    pairs.add(
                        ours: ours, theirs: try await peer.withDatabase("target-\(round)") { try replicate(peer, from: theirs, to: $0) })
                }
                if rows.contains(.pouchdb), let pouchDB {
                    let script = "\(scratch.path)/pull.js"
                    try Files.write(Self.script, to: script)
                    let ours = try pull(source.database, with: script, pouchDB)
                    pouches.add(ours: ours, theirs: try pull(theirs, with: script, pouchDB))
                }
            }
        }
        try source.stop()
        if rows.contains(.replication) { pairs.show("one-shot replication", count: replicated, "documents", bar: 5, in: &report) }
        if rows.contains(.pouchdb) {
            if pouchDB == nil { report.notes.append("without --pouchdb nothing is measured with PouchDB") } else {
                pouches.show("PouchDB pulling", count: replicated, "documents", bar: 1, in: &report)
            }
        }
    }

    /// From our server to a database of ours: `nightjar replicate`, from its start to its end.
    private func pull(from source: CouchDatabase, into folder: String) throws -> CouchWork {
        let before = childrenSeconds()
        var (line, status) = ("", Int32(0))
        var work = try CouchWork.measure(source) {
            let child = try Child(agent, ["replicate", source.url, folder])
            line = try child.line()
            status = child.wait()
        }
        // The sum of both sides, as for CouchDB.
        work.processor = work.processor.map { $0 + childrenSeconds() - before }
        guard status == 0, line.contains("pulled \(replicated),") else { throw BenchError("\(agent) replicate ended with status \(status): \(line)") }
        Files.remove(folder)
        return work
    }

    /// CPU time of the children that have ended, in seconds.
    private func childrenSeconds() -> Double {
        var usage = rusage()
        getrusage(__rusage_who_t(RUSAGE_CHILDREN.rawValue), &usage)
        return Double(usage.ru_utime.tv_sec + usage.ru_stime.tv_sec) + Double(usage.ru_utime.tv_usec + usage.ru_stime.tv_usec) * 1e-6
    }

    /// From CouchDB to CouchDB, with its own replicator.
    private func replicate(_ peer: CouchPeer, from source: CouchDatabase, to target: CouchDatabase) throws -> CouchWork {
        let body = "{\"source\":\"\(peer.address.url)/\(source.name)\",\"target\":\"\(peer.address.url)/\(target.name)\"}"
        let work = try CouchWork.measure(source) { try peer.request("POST", "/_replicate", body, expecting: [200]) }
        guard try target.count() == replicated else { throw BenchError("CouchDB has not replicated \(replicated) documents") }
        return work
    }

    /// PouchDB itself reports how long it took, without the start of Node.
    private func pull(_ source: CouchDatabase, with script: String, _ pouchDB: String) throws -> CouchWork {
        var values: [String: String] = [:]
        var work = try CouchWork.measure(source) {
            let child = try Child(node, [script, pouchDB, source.url])
            values = try child.values()
            child.wait()
        }
        guard try values.number("documents") == Double(replicated) else { throw BenchError("PouchDB has not pulled \(replicated) documents: \(values)") }
        work.seconds = try values.number("seconds")
        return work
    }

    private static let script = """
        const need = require('module').createRequire(process.argv[2] + '/');
        const plain = (module) => module.default || module;
        const PouchDB = plain(need('pouchdb'));
        PouchDB.plugin(plain(need('pouchdb-adapter-memory')));
        (async () => {
          const here = new PouchDB('here', { adapter: 'memory' });
          const start = process.hrtime.bigint();
          const result = await PouchDB.replicate(process.argv[3], here);
          const seconds = Number(process.hrtime.bigint() - start) / 1e9;
          console.log(`documents=${result.docs_written} seconds=${seconds}`);
          process.exit(0);
        })();

        """
}
