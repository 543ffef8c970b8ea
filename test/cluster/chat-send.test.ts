import { type Database, openPostgres } from "../../src/platform/database.ts";
import { aTalk, raceSends, upTo } from "../support/chat.ts";
import { type Services, startServices } from "../support/cluster.ts";
import { type Domain, openDomain } from "../support/leaderboards.ts";
import { temporaryDir } from "../support/process.ts";

describe("sends to one channel over several connections", function () {
  this.timeout(60_000);
  let directory: Awaited<ReturnType<typeof temporaryDir>>;
  let services: Services;
  let database: Database;
  let domain: Domain;

  before(async () => {
    directory = await temporaryDir();
    services = await startServices(directory.path);
    database = await openPostgres(services.databaseUrl, 10);
    await database.migrateUp();
    domain = openDomain(database);
  });
  after(async () => {
    await database?.close();
    await services?.remove();
    await directory?.remove();
  });

  it("are one message for each clientMsgId in one order, while the mentioned are busy", async () => {
    const talk = await aTalk(domain, 4);
    // Who mentions locks players and channel, who grants the players alone: neither may wait in a ring.
    const busy = upTo(20).map((i) => domain.grant(talk.projectId, talk.players[i % 4]!.playerId, 1));
    await Promise.all([raceSends(talk), ...busy]);
  });
});
