/** Marks that stand nowhere unless a request has put them there. */
const [ID, NUMBER, TIME, TEXT] = [
  "deadbeef-0bad-7000-8000-5e7700000000",
  918_273_645,
  "2003-02-01T04:05:06.789Z",
  "assigned-by-a-caller",
];
/** What a text has of it, where it was taken. */
export const MARKS = [ID, String(NUMBER), TIME.slice(0, 10), TEXT];
/** What the server alone writes, in any record: ids, counters, times, states. */
export const OWNED: readonly (readonly [string, unknown])[] = [
  ["id tenantId projectId userId eventId ownerProjectId actsOnProjectId sandboxOf periodId ruleId keyId", ID],
  ["xp level seq ledgerSeq configVersion version draftVersion publishedVersion attempts", NUMBER],
  ["createdAt updatedAt deletedAt lastUsedAt lastSeenAt receivedAt processedAt usedAt", TIME],
  ["prefix key_hash secretHash passwordHash createdBy published pauseReason balanceAfter cause source", TEXT],
  ["status role approvalStatus plan", "SUPERADMIN"],
  ["emailVerified isTest", true],
].flatMap(([names, value]) =>
  String(names)
    .split(" ")
    .map((name) => [name, value] as const),
);
/** The other spelling of a name. */
export const snake = (name: string): string =>
  name.replaceAll(/[A-Z]/g, (letter) => `_${letter.toLowerCase()}`);
