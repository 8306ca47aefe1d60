import Documents
import Encodings
import TestSupport
import Testing

/// Who logs in from behind the router from behind which others guess.
@Suite(
    "Logins of a shared address", .serialized,
    .agent(
        Configuration.hub(listener: "authenticator: users\n    couchdb: true", plugins: true),
        files: ["plugins/users.lua": "return { authenticate_password = function(name, password) return name:find(\"^right\") and password == \"x\" end }"]))
struct SharedAddressTests {
    private func status(_ login: String) async throws -> Int {
        let probe = HTTPProbe.tcp(port: try sharedAgent().port("edge"))
        return try await probe.get("/main", headers: [("Authorization", "Basic \(Base64.encode(Array(login.utf8)))")]).status
    }

    @Test("1,000 simultaneous wrong logins of one user delay neither a user who arrives for the first time in the middle of them, nor one who arrives after them")
    func guessesAtOne() async throws {
        let statuses = try await withThrowingTaskGroup(of: [Int].self) { tasks in
            // As many at once as leave room in max_connections_per_address (256).
            for line in 0..<200 {
                tasks.addTask {
                    var statuses: [Int] = []
                    for number in 0..<5 { statuses.append(try await status("victim:\(line)-\(number)")) }
                    return statuses
                }
            }
            for number in 0..<20 { #expect(try await status("right-\(number):x") == 200) }
            return try await tasks.reduce(into: Set<Int>()) { $0.formUnion($1) }
        }
        #expect(statuses.isSubset(of: [401, 429, 503]), "\(statuses)")
        #expect(try await status("right-behind:x") == 200)
        // If the wait for the last of them is over already, each further guess doubles it.
        var guesses = 0
        while try await status("victim:again") != 429, guesses < 12 { guesses += 1 }
        #expect(guesses < 12)
    }

    @Test("wrong logins of always different users delay a right one by a second at most, and it is not refused")
    func guessesAtMany() async throws {
        for number in 0..<24 {
            let status = try await status("somebody-\(number):x")
            #expect(status == 401 || status == 429)
        }
        #expect(try await status("right-after:x") == 200)
    }
}
