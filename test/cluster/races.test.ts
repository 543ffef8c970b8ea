import { type Database, openPostgres } from "../../src/platform/database.ts";
import { type Client, clientOf } from "../support/http/client.ts";
import { type Services, startServices } from "../support/processes/services.ts";
import { eventuallyHolds } from "../support/eventually.ts";
import { assertInvariants } from "../support/domain/invariants.ts";
import { freePort, kill, type Laurel, startProcess, temporaryDir } from "../support/processes/process.ts";
import { races } from "../support/races/races.ts";
import { economyRaces } from "../support/races/economy.ts";
import { rewardRaces } from "../support/races/rewards.ts";

const ROUNDS = 3;

describe("several at once over two processes", function () {
  this.timeout(120_000);
  let directory: Awaited<ReturnType<typeof temporaryDir>>;
  let services: Services;
  let database: Database;
  const servers: Laurel[] = [];
  const clients: Client[] = [];

  before(async () => {
    directory = await temporaryDir();
    services = await startServices(directory.path);
    for (let i = 0; i < 2; i++) {
      const port = await freePort();
      // One address for all, as behind a load balancer: tokens name it.
      const shared = { PUBLIC_URL: "http://localhost", TRUSTED_PROXIES: "127.0.0.1/32" };
      const env = { ...services.env, ...shared, PORT: String(port) };
      servers.push(await startProcess(["serve"], env));
      clients.push(clientOf(`http://127.0.0.1:${port}`));
    }
    database = await openPostgres(services.databaseUrl, 1);
  });
  after(async () => {
    await database?.close();
    for (const server of servers) await kill(server);
    await services?.remove();
    await directory?.remove();
  });

  for (const { name, run, isSlow = false } of [...races, ...economyRaces, ...rewardRaces]) {
    it(name, async () => {
      for (let round = 0; round < (isSlow ? 1 : ROUNDS); round++) await run({ clients });
    });
  }

  it("leave nothing in the queues and every invariant whole", async () => {
    await eventuallyHolds(() => assertInvariants(database.em), { timeoutMs: 20_000 });
  });
});
