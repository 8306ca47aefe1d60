import Synchronization

/// Checks a few logins at a time, because each costs a password hash: tens of milliseconds and megabytes. Addresses take turns, and so do the
/// users of one address, so that many wrong logins delay a right one by at most one check. Users who have logged in before from the same
/// address have their own lane, which takes turns with that of strangers: whatever names a neighbour tries, they wait for one of his checks
/// for each of their own.
package final class LoginQueue: Sendable {
    package struct Limits: Sendable {
        /// `logins_at_once`: one, so that a thread is left for plugins that judge documents.
        package var atOnce = 1
        /// `waiting_logins`: in each lane. A peer that is refused tries again.
        package var waiting = 256
        /// `waiting_logins_per_address`: enough for a site behind one router that reconnects all at once.
        package var waitingPerAddress = 64

        package init() {}
    }

    /// Why a login was not checked.
    package enum Refusal: Error, Equatable {
        /// A limit, with its name and value.
        case full(limit: String, value: Int)
        /// Nobody is waiting for it any more.
        case cancelled
    }

    private struct Ticket {
        var number: UInt64
        var turn: CheckedContinuation<Refusal?, Never>
    }

    private struct UserLine {
        var user: String
        var tickets: [Ticket]
    }

    private struct AddressLine {
        var origin: String
        var users: [UserLine]
        var count: Int { users.reduce(0) { $0 + $1.tickets.count } }
    }

    private struct Lane {
        var waiting = 0
        /// The next one to be served comes first; the same holds for the users of each.
        var lines: [AddressLine] = []
    }

    private struct State {
        var running = 0
        var next: UInt64 = 0
        /// One for strangers, and one for known users.
        var lanes = [Lane(), Lane()]
        /// The lane that is served next.
        var lane = 1
        var waiting: Int { lanes[0].waiting + lanes[1].waiting }
        /// Logins about to enter a line; a login that is cancelled before that is removed from here.
        var arriving: Set<UInt64> = []
    }

    private let state = Mutex(State())
    private let limits: Limits

    package init(limits: Limits = Limits()) { self.limits = limits }

    /// How many logins are waiting.
    package var waiting: Int { state.withLock { $0.waiting } }

    /// How many logins have arrived so far.
    var arrived: Int { state.withLock { Int($0.next) - $0.arriving.count } }

    /// Does the work when it is this login's turn.
    ///
    /// - Parameter isKnown: whether the user has logged in from there before.
    package func run<Value: Sendable>(
        _ login: LoginGuard.Login, isKnown: Bool = false, _ work: () async -> Value
    ) async throws(Refusal) -> Value {
        if let refusal = await wait(login, lane: isKnown ? 1 : 0) { throw refusal }
        let value = await work()
        leave()
        return value
    }

    private func wait(_ login: LoginGuard.Login, lane: Int) async -> Refusal? {
        let number = state.withLock { state in
            state.next += 1
            state.arriving.insert(state.next)
            return state.next
        }
        return await withTaskCancellationHandler {
            await withCheckedContinuation { enter(login, lane, Ticket(number: number, turn: $0)) }
        } onCancel: {
            cancel(number)
        }
    }

    private func enter(_ login: LoginGuard.Login, _ lane: Int, _ ticket: Ticket) {
        let answered = state.withLock { state -> (Ticket, Refusal?)? in
            guard state.arriving.remove(ticket.number) != nil else { return (ticket, .cancelled) }
            if state.running < limits.atOnce, state.waiting == 0 {
                state.running += 1
                return (ticket, nil)
            }
            return enter(login, ticket, &state.lanes[lane])
        }
        if let (ticket, refusal) = answered { ticket.turn.resume(returning: refusal) }
    }

    /// Returns the login that is refused as a result, if any.
    private func enter(_ login: LoginGuard.Login, _ ticket: Ticket, _ lane: inout Lane) -> (Ticket, Refusal?)? {
        var out: (Ticket, Refusal?)?
        let own = lane.lines.firstIndex { $0.origin.utf8.elementsEqual(login.origin.utf8) }
        if let own, lane.lines[own].count >= limits.waitingPerAddress {
            let refusal = Refusal.full(limit: "waiting_logins_per_address", value: limits.waitingPerAddress)
            guard let victim = Self.yieldPlace(in: own, to: login, &lane) else { return (ticket, refusal) }
            out = (victim, refusal)
        } else if lane.waiting >= limits.waiting {
            let refusal = Refusal.full(limit: "waiting_logins", value: limits.waiting)
            let mine = own.map { lane.lines[$0].count } ?? 0
            guard let longest = lane.lines.indices.max(by: { lane.lines[$0].count < lane.lines[$1].count }),
                lane.lines[longest].count > mine + 1 || longest == own,
                let victim = Self.yieldPlace(in: longest, to: login, &lane)
            else { return (ticket, refusal) }
            out = (victim, refusal)
        }
        Self.append(ticket, login, &lane)
        return out
    }

    /// Evicts the newest login of the user with most in the line, unless this login's own user would then have as many. So a user with a
    /// single login in the line keeps his place, however many others arrive.
    private static func yieldPlace(in index: Int, to login: LoginGuard.Login, _ lane: inout Lane) -> Ticket? {
        let users = lane.lines[index].users
        guard let longest = users.indices.max(by: { users[$0].tickets.count < users[$1].tickets.count }) else { return nil }
        if lane.lines[index].origin.utf8.elementsEqual(login.origin.utf8) {
            let mine = users.first { $0.user.utf8.elementsEqual(login.user.utf8) }?.tickets.count ?? 0
            guard users[longest].tickets.count > mine + 1 else { return nil }
        }
        guard let victim = lane.lines[index].users[longest].tickets.popLast() else { return nil }
        lane.waiting -= 1
        removeEmpty(&lane)
        return victim
    }

    private static func append(_ ticket: Ticket, _ login: LoginGuard.Login, _ lane: inout Lane) {
        lane.waiting += 1
        guard let line = lane.lines.firstIndex(where: { $0.origin.utf8.elementsEqual(login.origin.utf8) }) else {
            lane.lines.append(AddressLine(origin: login.origin, users: [UserLine(user: login.user, tickets: [ticket])]))
            return
        }
        guard let user = lane.lines[line].users.firstIndex(where: { $0.user.utf8.elementsEqual(login.user.utf8) }) else {
            lane.lines[line].users.append(UserLine(user: login.user, tickets: [ticket]))
            return
        }
        lane.lines[line].users[user].tickets.append(ticket)
    }

    private static func removeEmpty(_ lane: inout Lane) {
        for index in lane.lines.indices { lane.lines[index].users.removeAll { $0.tickets.isEmpty } }
        lane.lines.removeAll { $0.users.isEmpty }
    }

    /// A check is done: the lanes take turns, and within a lane the first user of the first address is next; both then move to the end.
    private func leave() {
        let next = state.withLock { state -> Ticket? in
            guard state.waiting > 0 else {
                state.running -= 1
                return nil
            }
            let number = state.lanes[state.lane].lines.isEmpty ? 1 - state.lane : state.lane
            state.lane = 1 - number
            return Self.takeNext(&state.lanes[number])
        }
        next?.turn.resume(returning: nil)
    }

    private static func takeNext(_ lane: inout Lane) -> Ticket {
        var line = lane.lines.removeFirst()
        var user = line.users.removeFirst()
        let ticket = user.tickets.removeFirst()
        lane.waiting -= 1
        if !user.tickets.isEmpty { line.users.append(user) }
        if !line.users.isEmpty { lane.lines.append(line) }
        return ticket
    }

    private func cancel(_ number: UInt64) {
        let gone = state.withLock { state -> Ticket? in
            if state.arriving.remove(number) != nil { return nil }
            for lane in state.lanes.indices {
                if let ticket = Self.take(number, &state.lanes[lane]) { return ticket }
            }
            return nil
        }
        gone?.turn.resume(returning: .cancelled)
    }

    private static func take(_ number: UInt64, _ lane: inout Lane) -> Ticket? {
        for line in lane.lines.indices {
            for user in lane.lines[line].users.indices {
                guard let at = lane.lines[line].users[user].tickets.firstIndex(where: { $0.number == number }) else { continue }
                let ticket = lane.lines[line].users[user].tickets.remove(at: at)
                lane.waiting -= 1
                removeEmpty(&lane)
                return ticket
            }
        }
        return nil
    }
}
