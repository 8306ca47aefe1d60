import Synchronization
import Testing

@testable import Transport

@Suite(.timeLimit(.minutes(10)))
struct LoginQueueTests {
    /// The order in which logins had their turn, and a gate that holds the first one.
    private final class Checks: Sendable {
        let order = Mutex<[String]>([])
        private let running = Mutex<(now: Int, most: Int)>((0, 0))
        /// How many ran at the same time.
        var mostAtOnce: Int { running.withLock { $0.most } }
        private let gate = Mutex<(isOpen: Bool, waiting: CheckedContinuation<Void, Never>?)>((false, nil))

        func check(_ name: String) { order.withLock { $0.append(name) } }

        /// A check that takes a while: others could begin in it.
        func run(_ name: String) async {
            check(name)
            running.withLock { $0 = ($0.now + 1, max($0.most, $0.now + 1)) }
            for _ in 0..<10 { await Task.yield() }
            if name.hasPrefix("first@") { await hold() }
            running.withLock { $0.now -= 1 }
        }

        /// The checks before this one.
        func before(_ name: String) -> Int? { order.withLock { $0.firstIndex(of: name) } }

        func hold() async {
            await withCheckedContinuation { continuation in
                let isOpen = gate.withLock { gate in
                    if !gate.isOpen { gate.waiting = continuation }
                    return gate.isOpen
                }
                if isOpen { continuation.resume() }
            }
        }

        func open() {
            let waiting = gate.withLock { gate in
                gate.isOpen = true
                defer { gate.waiting = nil }
                return gate.waiting
            }
            waiting?.resume()
        }
    }

    private typealias Outcome = Result<String, LoginQueue.Refusal>

    private func login(_ queue: LoginQueue, _ checks: Checks, _ user: String, _ origin: String) async -> Outcome {
        do throws(LoginQueue.Refusal) {
            return .success(try await queue.run(LoginGuard.Login(user: user, origin: origin)) {
                await checks.run("\(user)@\(origin)")
                return user
            })
        } catch { return .failure(error) }
    }

    /// A queue whose first check goes on until ``Checks/open()``.
    private func busy(_ limits: LoginQueue.Limits = LoginQueue.Limits()) async -> (LoginQueue, Checks, Task<Outcome, Never>) {
        let queue = LoginQueue(limits: limits)
        let checks = Checks()
        return (queue, checks, await enter(queue, checks, "first", "0"))
    }

    /// Returns once the login has its place or its refusal.
    private func enter(_ queue: LoginQueue, _ checks: Checks, _ user: String, _ origin: String) async -> Task<Outcome, Never> {
        let before = queue.arrived
        let task = Task { await login(queue, checks, user, origin) }
        while queue.arrived == before { await Task.yield() }
        return task
    }

    @Test func addressesTakeTurnsAndUsersOfOneDo() async {
        let (queue, checks, first) = await busy()
        var tasks: [Task<Outcome, Never>] = []
        for _ in 0..<3 { tasks.append(await enter(queue, checks, "guess", "1")) }
        tasks.append(await enter(queue, checks, "ada", "1"))
        tasks.append(await enter(queue, checks, "bob", "2"))
        checks.open()
        for task in tasks { #expect(await task.value != .failure(.cancelled)) }
        _ = await first.value
        #expect(checks.order.withLock { $0 } == ["first@0", "guess@1", "bob@2", "ada@1", "guess@1", "guess@1"])
        #expect(queue.waiting == 0)
    }

    /// From one address, as behind a router or a proxy: names that were never seen do not delay one that was.
    @Test func whoIsKnownWaitsForOneStrangerAtMost() async throws {
        let (queue, checks, first) = await busy()
        var strangers: [Task<Outcome, Never>] = []
        for number in 0..<300 { strangers.append(await enter(queue, checks, "guess-\(number)", "1")) }
        let before = queue.arrived
        let ada = Task { () -> Outcome in
            do throws(LoginQueue.Refusal) {
                return .success(try await queue.run(LoginGuard.Login(user: "ada", origin: "1"), isKnown: true) {
                    checks.check("ada@1")
                    return "ada"
                })
            } catch { return .failure(error) }
        }
        while queue.arrived == before { await Task.yield() }
        checks.open()
        #expect(await ada.value == .success("ada"))
        for task in strangers { _ = await task.value }
        _ = await first.value
        #expect(try #require(checks.order.withLock { $0.firstIndex(of: "ada@1") }) <= 2)
        #expect(queue.waiting == 0)
    }

    /// Where a crowd comes from: one place and one name, one place with as many names, as many places.
    enum Crowd: CaseIterable, Sendable {
        case oneUser, manyUsers, manyAddresses
        func login(_ number: Int) -> (user: String, origin: String) {
            switch self {
            case .oneUser: ("guess", "1")
            case .manyUsers: ("guess-\(number)", "1")
            case .manyAddresses: ("guess", "1.\(number)")
            }
        }
        /// How many checks precede that of a user who has come after forty of them: from another address, and from that of the crowd.
        func most(_ limits: LoginQueue.Limits) -> (stranger: Int, neighbour: Int) {
            switch self {
            case .oneUser: (3, 4)
            case .manyUsers: (3, 2 * limits.waitingPerAddress)
            case .manyAddresses: (limits.waiting + 1, limits.waiting + 1)
            }
        }
    }

    /// Each check is a password hash. Newcomers who know their password come among the crowd: one from elsewhere, and one from where it is.
    @Test(arguments: Crowd.allCases)
    func aCrowdOfAThousandKeepsNobodyWaitingForAllOfIt(_ crowd: Crowd) async {
        let limits = LoginQueue.Limits()
        let (queue, checks, first) = await busy(limits)
        var guesses: [Task<Outcome, Never>] = []
        func comes(_ range: Range<Int>) async {
            for number in range {
                let (user, origin) = crowd.login(number)
                guesses.append(await enter(queue, checks, user, origin))
            }
        }
        await comes(0..<40)
        let stranger = await enter(queue, checks, "ada", "2")
        let neighbour = await enter(queue, checks, "bob", "1")
        await comes(40..<1000)
        #expect(queue.waiting <= limits.waiting)
        checks.open()
        #expect(await stranger.value == .success("ada"), "none who stands in line has to go for one who has as little there")
        #expect(await neighbour.value == .success("bob"))
        for task in guesses { _ = await task.value }
        _ = await first.value
        let most = crowd.most(limits)
        #expect(checks.before("ada@2").map { $0 <= most.stranger } == true, "\(String(describing: checks.before("ada@2")))")
        #expect(checks.before("bob@1").map { $0 <= most.neighbour } == true, "\(String(describing: checks.before("bob@1")))")
        #expect(checks.mostAtOnce == limits.atOnce)
        // Those who were refused come back, and find room.
        #expect(await login(queue, checks, "eve", "3") == .success("eve"))
        #expect(checks.order.withLock { $0.count } <= limits.waiting + 4)
        #expect(queue.waiting == 0)
    }

    @Test func aFullQueueMakesThoseGiveWayWhoHaveMost() async {
        var limits = LoginQueue.Limits()
        limits.waiting = 6
        limits.waitingPerAddress = 4
        let (queue, checks, first) = await busy(limits)
        var guesses: [Task<Outcome, Never>] = []
        for _ in 0..<1000 { guesses.append(await enter(queue, checks, "guess", "1")) }
        #expect(queue.waiting == 4)
        let neighbour = await enter(queue, checks, "ada", "1")
        #expect(queue.waiting == 4, "a guess has given way to another user of its address")
        var others: [Task<Outcome, Never>] = []
        for number in 2..<5 { others.append(await enter(queue, checks, "bob", "\(number)")) }
        #expect(queue.waiting == 6, "and one to another address")
        checks.open()
        #expect(await neighbour.value == .success("ada"))
        for task in others { #expect(await task.value == .success("bob")) }
        _ = await first.value
        var checked = 0
        var refused = 0
        for task in guesses {
            switch await task.value {
            case .success: checked += 1
            case .failure(.full(let limit, _)):
                refused += 1
                #expect(limit.hasPrefix("waiting_logins"))
            case .failure(.cancelled): Issue.record("nobody cancelled it")
            }
        }
        #expect(checked == 2 && refused == 998, "\(checked) \(refused)")
    }

    @Test func aClientThatGoesAwayLeavesTheQueue() async {
        let (queue, checks, first) = await busy()
        let gone = await enter(queue, checks, "ada", "1")
        gone.cancel()
        #expect(await gone.value == .failure(.cancelled))
        let early = Task { () -> Outcome in
            withUnsafeCurrentTask { $0?.cancel() }
            return await login(queue, checks, "bob", "1")
        }
        #expect(await early.value == .failure(.cancelled))
        #expect(queue.waiting == 0)
        checks.open()
        _ = await first.value
        #expect(checks.order.withLock { $0 } == ["first@0"])
    }
}
