import assert from "node:assert/strict";
import { newSecret } from "../../src/domain/accounts/api-keys/api-key.ts";
import { anotherServer } from "../support/app/another-server.ts";
import { aTenant, startApp } from "../support/app/app.ts";
import { assertError } from "../support/http/assert-error.ts";
import { anAddress, type Client } from "../support/http/client.ts";
import { from, numbers } from "../support/http/limit-headers.ts";
import { madeOnce } from "../support/made.ts";

describe("rate limits of addresses", () => {
  const api = madeOnce(startApp);
  const tenant = madeOnce(() => aTenant(api));

  const open = (address: string, client: Client = api) => client.get("/api/v1/limits", from(address));

  it("are 300 a minute for requests without credentials", async () => {
    const address = anAddress();
    assert.deepEqual(numbers(await open(address)), [300, 299]);
    const unnamed = await api.get("/api/v1/players", from(address));
    assertError(unnamed, 401, "CREDENTIALS_MISSING");
    assert.deepEqual(numbers(unnamed), [300, 298]);
    const answers = await Promise.all(Array.from({ length: 300 }, () => open(address)));
    assert.equal(answers.filter(({ status }) => status === 200).length, 298);
    assertError(await open(address), 429, "IP_RATE");
    assertError(await api.get("/api/v1/players", from(address)), 429, "IP_RATE");
    assert.equal((await api.get("/api/v1/players", { key: tenant.key, ...from(address) })).status, 200);
  });

  it("count requests whose API key is refused", async () => {
    const address = anAddress();
    const refused = await api.get("/api/v1/players", { key: newSecret("live"), ...from(address) });
    assertError(refused, 401, "API_KEY_INVALID");
    assert.deepEqual(numbers(await open(address)), [300, 298]);
  });

  it("are one for a whole IPv6 /64, and an IPv4 address has one in every spelling", async () => {
    const net = `2001:db8:${Math.floor(Math.random() * 65_536).toString(16)}:7`;
    await open(`${net}::1`);
    await open(`${net}:ffff::2`);
    assert.deepEqual(numbers(await open(`${net}:1:2:3:4`.toUpperCase())), [300, 297]);
    const ipv4 = anAddress();
    await open(ipv4);
    assert.deepEqual(numbers(await open(`::ffff:${ipv4}`)), [300, 298]);
  });

  it("are the same by every prefix, and HEAD counts as GET", async () => {
    const address = anAddress();
    for (const path of ["/api/v1/limits", "/v1/limits", "/limits", "/limits/"])
      await api.get(path, { ...from(address), isUnchecked: true });
    await api.request("HEAD", "/api/v1/limits", { ...from(address), isUnchecked: true });
    assert.deepEqual(numbers(await open(address)), [300, 294]);
  });

  it("allow five registrations an hour; every attempt counts", async () => {
    const address = anAddress();
    const register = (body: object) => api.post("/api/v1/auth/register", body, from(address));
    const attempts = [{}, { email: "x" }, { name: "y" }, { password: "z" }, { website: "bot" }];
    for (const [index, body] of attempts.entries()) {
      const answer = await register(body);
      assert.equal(answer.status, 400);
      assert.deepEqual(numbers(answer), [5, 4 - index]);
    }
    const valid = { email: `${anAddress()}@example.com`, password: "Correct-horse-7", name: "Ada" };
    const refused = await register(valid);
    assertError(refused, 429, "REGISTRATION_RATE");
    assert(Number(refused.headers.get("Retry-After")) > 60);
    assert.deepEqual(numbers(refused), [5, 0]);
    assert.deepEqual(numbers(await open(address)), [300, 293], "other operations stay open");
  });

  it("leave registrations from this machine alone in development, embedded, and nowhere else", async () => {
    const codes = async (client: Client, address: string) => {
      const tries = Array.from({ length: 6 }, () => client.post("/api/v1/auth/register", {}, from(address)));
      return (await Promise.all(tries)).map(({ status }) => status).toSorted();
    };
    const free = [400, 400, 400, 400, 400, 400];
    const limited = [...free.slice(1), 429];
    for (const own of ["127.0.0.1", "::1"]) assert.deepEqual(await codes(api, own), free, own);
    assert.deepEqual(await codes(api, anAddress()), limited);
    const production = await anotherServer(api, { isProduction: true });
    assert.deepEqual(await codes(production, "127.0.0.1"), limited);
    const cluster = await anotherServer(api, { mode: "cluster" });
    assert.deepEqual(await codes(cluster, "::1"), limited);
  });
});
