import assert from "node:assert/strict";
import * as fc from "fast-check";
import {
  createApiKeyHasher,
  isSecret,
  newSecret,
  prefixOf,
} from "../../src/domain/accounts/api-keys/api-key.ts";

describe("API key secrets", () => {
  it("have the documented shape, and their prefix is their start", () => {
    for (const environment of ["live", "test"] as const) {
      const secret = newSecret(environment);
      assert.match(secret, new RegExp(`^svc_${environment}_[0-9A-Za-z]{42}$`));
      assert.equal(isSecret(secret), true);
      assert.equal(prefixOf(secret), secret.slice(0, 17));
    }
  });

  it("with any one character changed are told by the checksum", () => {
    const secret = newSecret("live");
    const alphabet = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz".split("");
    fc.assert(
      fc.property(fc.nat({ max: 41 }), fc.constantFrom(...alphabet), (at, character) => {
        const index = 9 + at;
        fc.pre(secret[index] !== character);
        assert.equal(isSecret(secret.slice(0, index) + character + secret.slice(index + 1)), false);
      }),
    );
  });

  it("of one environment are none of the other", () => {
    assert.equal(isSecret(newSecret("live").replace("live", "test")), false);
  });

  it("are not what is merely similar", () => {
    const secret = newSecret("test");
    fc.assert(fc.property(fc.string(), (text) => !isSecret(text)));
    for (const text of [
      `${secret} `,
      ` ${secret}`,
      `${secret}\n`,
      secret.toUpperCase(),
      secret.slice(0, -1),
    ]) {
      assert.equal(isSecret(text), false);
    }
  });

  it("are hashed under the first pepper and found under all", () => {
    const secret = newSecret("live");
    const before = createApiKeyHasher(["old pepper"]);
    const after = createApiKeyHasher(["new pepper", "old pepper"]);
    assert.deepEqual(after.hashes(secret), [after.hash(secret), before.hash(secret)]);
    assert.notEqual(after.hash(secret), before.hash(secret));
    assert.match(after.hash(secret), /^[0-9a-f]{64}$/);
    assert.throws(() => createApiKeyHasher([]));
  });
});
