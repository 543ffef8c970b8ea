import assert from "node:assert/strict";
import { createHmac, timingSafeEqual } from "node:crypto";
import { Webhook, WebhookVerificationError } from "standardwebhooks";
import { createSecretBox } from "../../src/domain/kernel/secret-box.ts";
import { liveSecrets, newWebhookSecret } from "../../src/domain/delivery/webhooks/registration.ts";
import { SEND_TIMEOUT_MS } from "../../src/domain/delivery/webhooks/delivering/sender.ts";
import { signatureHeaders, signedRequest } from "../../src/domain/delivery/webhooks/delivering/signing.ts";
import { type PlannedTest, testRequest } from "../../src/domain/delivery/webhooks/delivery-list.ts";

const EVENT = "0190a5b4-0000-7000-8000-000000000001";
const BODIES = {
  plain: JSON.stringify({ id: EVENT, type: "player.level_up", data: { level: 3 } }),
  unicode: JSON.stringify({ id: EVENT, name: "Zoë 🏆 日本 \u2028 é", sign: "½€" }),
  empty: "{}",
};

/** As a receiver would check it who has nothing but node:crypto, over the bytes that came. */
const isFromUs = (body: Buffer, header: string, secret: string): boolean => {
  const expected = Buffer.from(`sha256=${createHmac("sha256", secret).update(body).digest("hex")}`);
  const given = Buffer.from(header);
  return given.length === expected.length && timingSafeEqual(given, expected);
};

const seconds = (ago = 0): Date => new Date(Date.now() - ago * 1_000);

describe("the signature of a delivery", () => {
  const own = "a-secret-of-the-owner-with-ünïcode";
  const made = newWebhookSecret();
  /** As the guide says that a secret of one's own is given to the library. */
  const ofOwn = [
    new Webhook(Buffer.from(own), { format: "raw" }),
    new Webhook(`whsec_${Buffer.from(own).toString("base64")}`),
  ];

  for (const [name, body] of Object.entries(BODIES)) {
    it(`is right for verifiers that have nothing of ours: ${name} body`, () => {
      for (const secret of [made, own]) {
        const headers = signatureHeaders({ eventId: EVENT, body }, [secret], seconds());
        assert.ok(isFromUs(Buffer.from(body), headers["X-Service-Signature"]!, secret));
        for (const verifier of secret === made ? [new Webhook(made)] : ofOwn) {
          assert.deepEqual(verifier.verify(body, headers), JSON.parse(body));
          assert.deepEqual(verifier.verify(Buffer.from(body), headers), JSON.parse(body));
        }
      }
    });
  }

  it("is wrong for a body, an id or a time that was changed, and for another secret", () => {
    const body = BODIES.unicode;
    const headers = signatureHeaders({ eventId: EVENT, body }, [made], seconds());
    const signature = headers["X-Service-Signature"]!;
    const verifier = new Webhook(made);
    const later = String(Number(headers["webhook-timestamp"]) + 1);
    assert.throws(() => verifier.verify(`${body} `, headers), WebhookVerificationError);
    assert.throws(() => verifier.verify(body, { ...headers, "webhook-id": "x" }), WebhookVerificationError);
    assert.throws(
      () => verifier.verify(body, { ...headers, "webhook-timestamp": later }),
      WebhookVerificationError,
    );
    assert.throws(() => new Webhook(newWebhookSecret()).verify(body, headers), WebhookVerificationError);
    assert.ok(!isFromUs(Buffer.from(`${body} `), signature, made));
    assert.ok(!isFromUs(Buffer.from(body.replace("ë", "e")), signature, made));
    assert.ok(!isFromUs(Buffer.from(body), signature, own));
  });

  it("is of its time: a verifier refuses one that is replayed later", () => {
    const body = BODIES.plain;
    const verifier = new Webhook(made);
    verifier.verify(body, signatureHeaders({ eventId: EVENT, body }, [made], seconds(240)));
    for (const ago of [600, -600]) {
      const headers = signatureHeaders({ eventId: EVENT, body }, [made], seconds(ago));
      assert.throws(() => verifier.verify(body, headers), WebhookVerificationError);
    }
  });

  it("is by both secrets while one takes over, and by the present one alone after that", () => {
    const box = createSecretBox(["encryption-key-of-the-tests-and-of-nothing-else"]);
    const id = "0190a5b4-0000-7000-8000-000000000002";
    const [fresh, old] = [newWebhookSecret(), newWebhookSecret()];
    const until = new Date(Date.now() + 1_000);
    const webhook = {
      id,
      secret: box.seal(fresh, id),
      previousSecret: box.seal(old, id),
      previousSecretExpiresAt: until,
    };
    const body = BODIES.plain;
    const headersAt = (now: Date) =>
      signatureHeaders({ eventId: EVENT, body }, liveSecrets(box, webhook, now), new Date());

    const during = headersAt(new Date(until.getTime() - 1));
    assert.equal(during["webhook-signature"]!.split(" ").length, 2);
    for (const secret of [fresh, old]) new Webhook(secret).verify(body, during);
    assert.ok(isFromUs(Buffer.from(body), during["X-Service-Signature"]!, fresh));

    const after = headersAt(until);
    new Webhook(fresh).verify(body, after);
    assert.throws(() => new Webhook(old).verify(body, after), WebhookVerificationError);
  });

  it("of a test waits for its answer as long as a delivery does", () => {
    const secretBox = createSecretBox(["encryption-key-of-the-tests-and-of-nothing-else"]);
    const id = "0190a5b4-0000-7000-8000-000000000004";
    const webhook = { id, url: "https://hooks.example.com/x", secret: secretBox.seal(made, id) };
    const event = { id: EVENT, type: "webhook.test" };
    const planned = { webhook, deliveryId: id, event, body: BODIES.plain } as PlannedTest;
    const { timeoutMs } = testRequest({ secretBox, version: "1.2.3" }, planned, seconds());
    assert.equal(timeoutMs, SEND_TIMEOUT_MS);
  });

  it("goes with what names the event, the delivery and the attempt", () => {
    const at = new Date(Date.UTC(2030, 0, 1));
    const target = { url: "https://hooks.example.com/x", secrets: [made], version: "1.2.3" };
    const signable = {
      deliveryId: "0190a5b4-0000-7000-8000-000000000003",
      eventId: EVENT,
      eventType: "player.level_up",
      attempt: 2,
      body: BODIES.plain,
    };
    const { url, headers, body } = signedRequest(target, signable, at);
    assert.deepEqual([url, body], [target.url, signable.body]);
    const { "X-Service-Signature": seed, "webhook-signature": standard, ...rest } = headers;
    assert.match(seed!, /^sha256=[0-9a-f]{64}$/);
    assert.match(standard!, /^v1,[A-Za-z0-9+/]{43}=$/);
    assert.deepEqual(rest, {
      "Content-Type": "application/json",
      "User-Agent": "Laurel-Webhooks/1.2.3",
      "X-Service-Event": "player.level_up",
      "X-Service-Delivery": signable.deliveryId,
      "X-Service-Attempt": "2",
      "webhook-id": EVENT,
      "webhook-timestamp": String(at.getTime() / 1_000),
    });
  });
});
