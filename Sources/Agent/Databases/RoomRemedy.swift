/// How to make room in a database, in the words of remedies and explanations.
package enum RoomRemedy {
    package static let purge = "purge documents (nightjar doc purge; a deletion would go to every peer)"
}
