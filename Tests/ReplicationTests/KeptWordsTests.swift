import Testing

@testable import Replication

/// How a Nightjar says that it took a revision without storing it.
@Suite("Words of the property kept")
struct KeptWordsTests {
    @Test("They are the same in all releases, and are read as they are written", arguments: [
        (KeptByPeer.Reason.rejected, "rejected"), (.held, "held"), (.blob, "blob"), (.size, "size"),
    ])
    func words(_ reason: KeptByPeer.Reason, _ word: String) {
        #expect(reason.word == word && KeptByPeer.Reason(word: word) == reason)
    }

    @Test("Another word says nothing")
    func unknown() { #expect(KeptByPeer.Reason(word: "eaten") == nil && KeptByPeer.Reason(word: "") == nil) }
}
