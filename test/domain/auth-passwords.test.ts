import assert from "node:assert/strict";
import { parseOptions } from "@node-rs/argon2";
import {
  createPasswords,
  DUMMY_HASH,
  HASHES_AT_ONCE_MAX,
  HASHES_WAITING_MAX,
  passwordProblems,
} from "../../src/domain/accounts/auth/passwords.ts";
import { DomainError } from "../../src/domain/kernel/errors.ts";

const someone = { email: "ada@example.com", name: "Ada Lovelace" };
const messagesOf = (password: string) => passwordProblems(password, someone).map(({ message }) => message);

describe("passwords", () => {
  it("verifies the right password and no other", async () => {
    const passwords = createPasswords();
    const hash = await passwords.hash("Engine-No-1");
    assert.match(hash, /^\$argon2id\$v=19\$m=19456,t=2,p=1\$/);
    assert.equal(await passwords.verify(hash, "Engine-No-1"), true);
    assert.equal(await passwords.verify(hash, "engine-no-1"), false);
  });

  it("takes the composed and the decomposed spelling for one password", async () => {
    const passwords = createPasswords();
    const hash = await passwords.hash("Zürich-2026".normalize("NFD"));
    assert.equal(await passwords.verify(hash, "Zürich-2026".normalize("NFC")), true);
  });

  it("answers false for a hash that is none", async () => {
    const passwords = createPasswords();
    for (const garbage of ["", "x", "$argon2id$", "$2b$10$abcdefghijklmnopqrstuv"]) {
      assert.equal(await passwords.verify(garbage, "Engine-No-1"), false);
    }
  });

  it("spends on an unknown user what it spends on a known one", async () => {
    const passwords = createPasswords();
    const real = parseOptions(await passwords.hash("Engine-No-1"));
    assert.deepEqual(parseOptions(DUMMY_HASH), real);
    assert.equal(await passwords.verify(DUMMY_HASH, "Engine-No-1"), false);
  });

  it("keeps a bounded number of hashes waiting and tells the next one when to come back", async () => {
    const passwords = createPasswords();
    const all = Array.from({ length: HASHES_AT_ONCE_MAX + HASHES_WAITING_MAX + 1 }, () =>
      passwords.hash("Engine-No-1"),
    );
    const results = await Promise.allSettled(all);
    const refused = results.flatMap((result) =>
      result.status === "rejected" ? [result.reason as unknown] : [],
    );
    assert.equal(refused.length, 1);
    const [error] = refused;
    assert(error instanceof DomainError);
    assert.equal(error.code, "SERVICE_UNAVAILABLE");
    assert.equal(error.retryAfterSeconds, 1);
    assert.match(await passwords.hash("Engine-No-1"), /^\$argon2id/, "free again");
  });

  it("gives everybody a turn who comes while others are hashed", async () => {
    const passwords = createPasswords();
    const all = Array.from({ length: 3 * HASHES_AT_ONCE_MAX }, () => passwords.hash("Engine-No-1"));
    assert.equal(new Set(await Promise.all(all)).size, 3 * HASHES_AT_ONCE_MAX);
  });

  it("names every rule that a new password breaks", () => {
    assert.deepEqual(messagesOf("Engine-No-1"), []);
    assert.deepEqual(messagesOf("abc"), [
      "must have at least 8 characters",
      "must contain an uppercase letter",
      "must contain a number",
    ]);
    assert.deepEqual(messagesOf("ALLUPPER1"), ["must contain a lowercase letter"]);
    assert.deepEqual(messagesOf(`Aa1${"x".repeat(126)}`), ["must have at most 128 characters"]);
    assert.deepEqual(messagesOf(`Aa1${"😀".repeat(125)}`), [], "128 characters within 512 bytes");
    assert.deepEqual(messagesOf(`Äa1${"\u{1F600}".repeat(125)}x`), ["must have at most 128 characters"]);
  });

  it("refuses the email address and the name as a password", () => {
    const known = { email: "Ada1@example.com", name: "Ada Lovelace 1" };
    for (const password of ["aDa1@example.com", "Ada Lovelace 1"]) {
      assert.deepEqual(
        passwordProblems(password, known).map(({ message }) => message),
        ["must not be the email address or the name"],
      );
    }
  });
});
