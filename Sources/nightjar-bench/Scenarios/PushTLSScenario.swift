/// How much TLS slows down a push.
struct PushTLSScenario {
    var documents = 100_000
    var rounds = 5
    var processes = 2

    func run(_ scratch: Scratch) async throws -> Report {
        let secure = "\(scratch.path)/identity"
        try Files.makeFolder(secure)
        _ = try BenchIdentity(folder: secure)
        let original = "\(scratch.path)/original.nightjar"
        _ = try await Insertion.store(Readings().make(from: 0, count: documents), folder: original)
        var clear: [PushRun] = []
        var encrypted: [PushRun] = []
        for round in 0..<rounds {
            // Each variant goes first equally often.
            for tls in round % 2 == 0 ? [nil, secure] : [secure, nil] {
                let name = "\(scratch.path)/\(tls == nil ? "clear" : "tls")-\(round)"
                try Files.copyFolder(original, "\(name).nightjar")
                let run = try await PushRun.run(
                    source: "\(name).nightjar", hub: "\(name)-hub.nightjar", documents: documents, processes: processes, secure: tls)
                Files.remove("\(name).nightjar")
                if tls == nil { clear.append(run) } else { encrypted.append(run) }
            }
        }
        Files.remove(original)
        let count = Double(documents)
        var report = Report(scenario: "push-tls", title: "the push of \(documents) documents over wss: against ws:, compressed, TLS 1.3")
        report.add("clear text", "documents/s", clear.map { count / $0.seconds })
        report.add("TLS", "documents/s", encrypted.map { count / $0.seconds })
        report.add("clear text, CPU", "µs/document", clear.map { $0.cpuSeconds / count * 1e6 })
        report.add("TLS, CPU", "µs/document", encrypted.map { $0.cpuSeconds / count * 1e6 })
        report.goal("TLS / clear text", "", zip(clear, encrypted).map { $0.seconds / $1.seconds }, .atLeast, 0.8)
        report.notes.append(machineLoad())
        return report
    }
}
