import Documents
import Testing

@testable import Agent

/// Whoever reads an entry of `/health` is told what to do.
struct AttentionRemedyTests {
    @Test("An entry of any kind has a remedy, even where the place that reports it has none", arguments: AttentionKind.allCases)
    func remedies(_ kind: AttentionKind) {
        let bare = Attention(kind, "replicator hub", "it is broken", remedy: "")
        #expect(bare.remedy.contains("nightjar explain \(kind.rawValue)"))
        #expect(bare.what == "it is broken; \(bare.remedy)")
        let report = Agent.report(bare)
        #expect(report["remedy"]?.asString == bare.remedy, "\(report.text)")
        #expect(Attention(kind, "replicator hub", "it is broken", remedy: "mend it").remedy == "mend it")
    }
}
