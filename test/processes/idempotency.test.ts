import assert from "node:assert/strict";
import { randomUUID } from "node:crypto";
import { setTimeout as delay } from "node:timers/promises";
import { aTenant, type Tenant } from "../support/app/app.ts";
import { type Answer, type Client, clientOf, must } from "../support/http/client.ts";
import { type Services, startServices } from "../support/processes/services.ts";
import { eventually } from "../support/eventually.ts";
import { freePort, kill, type Laurel, startProcess, temporaryDir } from "../support/processes/process.ts";

const KILLS = 5;
const GRANTS = 12;

describe("idempotency keys over two processes", () => {
  let directory: Awaited<ReturnType<typeof temporaryDir>>;
  let services: Services;
  let tenant: Tenant;
  const servers: Laurel[] = [];
  const clients: Client[] = [];

  const start = async (): Promise<{ server: Laurel; client: Client }> => {
    const port = await freePort();
    const shared = { PUBLIC_URL: "http://localhost", TRUSTED_PROXIES: "127.0.0.1/32" };
    const server = await startProcess(["serve"], { ...services.env, ...shared, PORT: String(port) });
    return { server, client: clientOf(`http://127.0.0.1:${port}`) };
  };

  before(async () => {
    directory = await temporaryDir();
    services = await startServices(directory.path);
    for (let i = 0; i < 2; i++) {
      const { server, client } = await start();
      servers.push(server);
      clients.push(client);
    }
    tenant = await aTenant(clients[0]!);
  });
  after(async () => {
    for (const server of servers) await kill(server);
    await services?.remove();
    await directory?.remove();
  });

  const aPlayer = async (): Promise<string> =>
    must(
      await clients[0]!.post("/api/v1/players", { externalUserId: randomUUID() }, { key: tenant.key }),
      201,
    ).id;
  const grant = (client: Client, player: string, key: string): Promise<Answer> =>
    client.post(
      `/api/v1/players/${player}/xp`,
      { amount: 1 },
      { key: tenant.key, headers: { "X-Idempotency-Key": key } },
    );
  const xpOf = async (player: string): Promise<number> =>
    must(await clients[0]!.get(`/api/v1/players/${player}`, { key: tenant.key }), 200).xp;

  it("give one effect and one body to 30 at once", async () => {
    const [player, key] = [await aPlayer(), randomUUID()];
    const answers = await Promise.all(
      Array.from({ length: 30 }, (_, i) => grant(clients[i % 2]!, player, key)),
    );
    const late = await grant(clients[1]!, player, key);
    const good = [...answers.filter(({ status }) => status === 201), late];
    const refused = answers.filter(({ status }) => status !== 201);
    for (const { status, body, headers } of refused) {
      assert.deepEqual([status, body.error.reason], [409, "IDEMPOTENCY_IN_PROGRESS"]);
      assert.equal(headers.get("retry-after"), "1");
    }
    assert.equal(new Set(good.map(({ body }) => JSON.stringify(body))).size, 1);
    const first = good.filter(({ headers }) => headers.get("x-idempotent-replayed") === null);
    assert.equal(first.length, 1);
    assert.equal(await xpOf(player), 1);
  });

  it(`are stuck after no kill: whatever was cut off works at once elsewhere, and counts once`, async () => {
    const player = await aPlayer();
    let sent = 0;
    for (let round = 0; round < KILLS; round++) {
      const { server, client } = await start();
      const keys = Array.from({ length: GRANTS }, () => randomUUID());
      const cut = keys.map((key) => grant(client, player, key).catch(() => undefined));
      await delay(Math.random() * 40);
      await kill(server);
      await Promise.all(cut);
      for (const key of keys) {
        // The database may take a moment to see that the connection of the dead process is gone.
        const answer = await eventually(async () => {
          const again = await grant(clients[round % 2]!, player, key);
          return again.status === 201 && again;
        });
        assert.equal(answer.status, 201);
      }
      sent += keys.length;
      assert.equal(await xpOf(player), sent);
    }
  });
});
