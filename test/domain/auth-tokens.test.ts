import assert from "node:assert/strict";
import { createHash, createPublicKey, generateKeyPairSync } from "node:crypto";
import { SignJWT, UnsecuredJWT, decodeJwt, decodeProtectedHeader } from "jose";
import { createTokens, type Tokens } from "../../src/domain/accounts/auth/tokens.ts";
import { DomainError } from "../../src/domain/kernel/errors.ts";
import { newId } from "../../src/domain/kernel/ids.ts";

const { privateKey } = generateKeyPairSync("ed25519");
const issuer = "https://laurel.example";
const start = new Date("2026-05-01T12:00:00Z");
let now = start;
const tokens = createTokens({ privateKey, issuer, clock: () => now });

const user = { sub: newId(), tid: newId(), role: "ADMIN", sid: newId() } as const;
const player = {
  sub: newId(),
  pid: newId(),
  tid: newId(),
  kind: "player",
  externalUserId: "user:42 ü",
} as const;
const admin = { sub: newId(), ver: 3 };
const pending = { sub: newId(), as: "user", method: "PASSWORD", state: "as it was" } as const;

const refused = (reason: string) => (error: unknown) =>
  error instanceof DomainError && error.reason === reason;
const rejects = (promise: Promise<unknown>, reason = "TOKEN_INVALID") =>
  assert.rejects(promise, refused(reason));

/** An access token that is right in every part but those given. */
const forged = async (header: object = {}, claims: object = {}, key = privateKey) => {
  const { token } = await tokens.signAccess(user);
  return new SignJWT({ ...decodeJwt(token), ...claims })
    .setProtectedHeader({ ...decodeProtectedHeader(token), alg: "EdDSA", ...header })
    .sign(key);
};

describe("tokens", () => {
  beforeEach(() => {
    now = start;
  });

  it("gives back the claims of an access token, which lives 7 days", async () => {
    const { token, expiresIn, expiresAt } = await tokens.signAccess(user);
    const claims = await tokens.verifyAccess(token);
    assert.equal(expiresIn, 604_800);
    assert.equal(expiresAt.toISOString(), "2026-05-08T12:00:00.000Z");
    assert.equal(claims.exp * 1_000, expiresAt.getTime());
    const { sub, tid, sid, role } = claims;
    assert.deepEqual({ sub, tid, sid, role }, user);
    assert.equal(decodeProtectedHeader(token).typ, "at+jwt");
    assert.equal(decodeJwt(token).aud, "laurel-admin");
  });

  it("gives back the claims of a WebSocket token, which lives 15 minutes", async () => {
    const { token, expiresIn } = await tokens.signWs(player);
    const { exp, ...claims } = await tokens.verifyWs(token);
    assert.equal(expiresIn, 900);
    assert.equal(exp * 1_000, start.getTime() + 900_000);
    assert.deepEqual(claims, player);
    assert.equal(decodeProtectedHeader(token).typ, "ws+jwt");
    assert.equal(decodeJwt(token).aud, "laurel-ws");
  });

  it("gives back the claims of a super-admin's token, which lives an hour", async () => {
    const { token, expiresIn } = await tokens.signAdmin(admin);
    const { exp, jti: _, ...claims } = await tokens.verifyAdmin(token);
    assert.equal(expiresIn, 3_600);
    assert.equal(exp * 1_000, start.getTime() + 3_600_000);
    assert.deepEqual(claims, admin);
    assert.equal(decodeProtectedHeader(token).typ, "admin+jwt");
    assert.equal(decodeJwt(token).aud, "laurel-superadmin");
  });

  it("is accepted by another process with the same key", async () => {
    const other = createTokens({ privateKey, issuer, clock: () => now });
    assert.equal((await other.verifyAccess((await tokens.signAccess(user)).token)).sub, user.sub);
  });

  it("tells an expired token from an invalid one", async () => {
    const access = await tokens.signAccess(user, 60);
    const ws = await tokens.signWs(player);
    const challenge = await tokens.signMfa(pending);
    now = new Date(start.getTime() + 66_000);
    await rejects(tokens.verifyAccess(access.token), "TOKEN_EXPIRED");
    assert.equal((await tokens.verifyMfa(challenge.token)).sub, pending.sub);
    now = new Date(start.getTime() + 306_000);
    await rejects(tokens.verifyMfa(challenge.token), "TOKEN_EXPIRED");
    now = new Date(start.getTime() + 906_000);
    await rejects(tokens.verifyWs(ws.token), "TOKEN_EXPIRED");
  });

  it("never takes one kind of token for another", async () => {
    const kinds = [
      { sign: () => tokens.signAccess(user), verify: tokens.verifyAccess },
      { sign: () => tokens.signWs(player), verify: tokens.verifyWs },
      { sign: () => tokens.signAdmin(admin), verify: tokens.verifyAdmin },
      { sign: () => tokens.signMfa(pending), verify: tokens.verifyMfa },
    ];
    for (const one of kinds) {
      const { token } = await one.sign();
      await one.verify(token);
      for (const other of kinds) if (other !== one) await rejects(other.verify(token));
    }
  });

  it("refuses alg none and HS256 keyed with the public key", async () => {
    const claims = decodeJwt((await tokens.signAccess(user)).token);
    await rejects(tokens.verifyAccess(new UnsecuredJWT(claims).encode()));
    const spki = createPublicKey(privateKey).export({ type: "spki", format: "pem" });
    const hs256 = new SignJWT(claims)
      .setProtectedHeader({ alg: "HS256", typ: "at+jwt" })
      .sign(Buffer.from(spki));
    await rejects(tokens.verifyAccess(await hs256));
  });

  it("refuses a changed role, a foreign key, issuer or kid, and an embedded key", async () => {
    const [header, , signature] = (await tokens.signAccess(user)).token.split(".");
    const owner = Buffer.from(JSON.stringify({ ...decodeJwt(await forged()), role: "OWNER" })).toString(
      "base64url",
    );
    await rejects(tokens.verifyAccess(`${header}.${owner}.${signature}`));
    const foreign = generateKeyPairSync("ed25519");
    const jwk = foreign.publicKey.export({ format: "jwk" });
    await rejects(tokens.verifyAccess(await forged({}, {}, foreign.privateKey)));
    await rejects(tokens.verifyAccess(await forged({ jwk }, {}, foreign.privateKey)));
    for (const kid of ["../../etc/passwd", "/dev/null", "' or 1=1 --", "", undefined])
      await rejects(tokens.verifyAccess(await forged({ kid })));
    // Where a key might be fetched from.
    for (const field of ["jku", "x5u"]) {
      const source = { [field]: "https://evil.example/jwks.json" };
      await rejects(tokens.verifyAccess(await forged(source, {}, foreign.privateKey)));
    }
    await rejects(tokens.verifyAccess(await forged({}, { iss: "https://evil.example" })));
  });

  it("refuses what another installation has signed, for any kind", async () => {
    const other = createTokens({ ...generateKeyPairSync("ed25519"), issuer, clock: () => now });
    await rejects(tokens.verifyAccess((await other.signAccess(user)).token));
    await rejects(tokens.verifyWs((await other.signWs(player)).token));
    await rejects(tokens.verifyAdmin((await other.signAdmin(admin)).token));
  });

  it("refuses claims of another shape", async () => {
    for (const claims of [
      { role: "ROOT" },
      { sub: "1" },
      { tid: undefined },
      { exp: undefined },
      { jti: undefined },
    ]) {
      await rejects(tokens.verifyAccess(await forged({}, claims)));
    }
  });

  it("refuses a token larger than 4 KiB and what is no token", async () => {
    for (const verify of [tokens.verifyAccess, tokens.verifyWs, tokens.verifyAdmin])
      await rejects(verify(await forged({}, { padding: "x".repeat(5_000) })));
    for (const text of ["", ".", "a.b.c", "..", "x".repeat(100_000)])
      await rejects(tokens.verifyAccess(text));
  });

  it("signs decoys that look real and open nothing", async () => {
    const real = await tokens.signAccess(user, 60);
    const decoy = await tokens.signDecoy(user, 60);
    assert.deepEqual(decodeProtectedHeader(decoy.token), decodeProtectedHeader(real.token));
    assert.deepEqual(Object.keys(decodeJwt(decoy.token)), Object.keys(decodeJwt(real.token)));
    await rejects(tokens.verifyAccess(decoy.token));
  });

  it("names its key by the RFC 7638 thumbprint", async () => {
    const { crv, kty, x } = createPublicKey(privateKey).export({ format: "jwk" });
    const canonical = `{"crv":"${crv}","kty":"${kty}","x":"${x}"}`;
    const expected = createHash("sha256").update(canonical).digest("base64url");
    const { token }: Awaited<ReturnType<Tokens["signAccess"]>> = await tokens.signAccess(user);
    assert.equal(decodeProtectedHeader(token).kid, expected);
  });
});
