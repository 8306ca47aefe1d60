import Documents
import DocumentStore
import Interfaces

/// A document that a filter kept back, or that the peer refused.
struct KeptBack: Sendable {
    var document: OutgoingDocument
    /// Nil: it said no.
    var failure: PolicyFailure?
    /// The peer's.
    var refusal: ReplicationError?
}

/// A page whose visible documents are with the filter.
struct JudgedPage {
    let page: PushPage
    /// The filter changed meanwhile: its verdicts do not count, and it is asked again.
    var isStale = false
}

/// What a push filter's verdicts make of a page.
struct Judgement {
    /// Nobody could decide about a document that a peer pulls.
    struct Undecided {
        var document: OutgoingDocument
        var stall: FeedReader.Stall
        /// Where the feed stood right before it.
        var position: FeedPosition
    }

    /// As many are held as may be.
    struct Standstill {
        var at: Undecided
        /// It and what was read behind it.
        var notLookedAt: ArraySlice<OutgoingDocument>
    }

    private(set) var passed: [OutgoingDocument] = []
    private(set) var kept: [KeptBack] = []
    private(set) var undecided: [Undecided] = []
    private(set) var standstill: Standstill?

    /// - Parameters:
    ///   - verdicts: one for each visible document of the page, in their order.
    ///   - version: of the filter that gave them.
    ///   - style: what a failure means. A push puts the document on a list; for a peer that pulls the document is held, since the peer's
    ///     checkpoint must not pass it.
    ///   - room: how many documents of the feed may be held. At one more it stands still.
    init(_ page: PushPage, _ verdicts: [FilterVerdict], by version: String, _ style: PushStyle, room: Int) {
        var next = verdicts.makeIterator()
        var position = page.from
        for (index, var document) in page.documents.enumerated() {
            document.judgedBy = version
            switch document.news == .visible ? next.next() ?? .reject : .pass {
            case .pass: passed.append(document)
            case .replace(let body):
                document.replaceBody(body)
                passed.append(document)
            case .reject: kept.append(KeptBack(document: document, failure: nil))
            case .failed(let failure) where style == .announce:
                let found = Undecided(
                    document: document, stall: .init(id: document.id, version: document.version, failure: failure),
                    position: position ?? FeedPosition(max(1, document.sequence) - 1))
                if position != nil, undecided.count >= room {
                    standstill = Standstill(at: found, notLookedAt: page.documents[index...])
                    return
                }
                undecided.append(found)
            case .failed(let failure): kept.append(KeptBack(document: document, failure: failure))
            }
            position = position?.behind(document)
        }
    }
}

extension ReplicationCounts {
    mutating func add(keptBack failure: PolicyFailure?) {
        if failure == nil { rejected += 1 } else { held += 1 }
    }
}
