import { setTimeout as delay } from "node:timers/promises";
import type { Random } from "../seed.ts";
import type { WebCluster } from "../processes/web-cluster.ts";

/** A process that stands still for so long is not yet taken for dead. */
const PAUSE_MS = 3_000;
const CUT_EVERY_MS = 250;
/** Of connections, each time. */
const CUT_SHARE = 0.03;
const CALM_MS = [200, 800] as const;

/** Kills a web process and starts it anew, and holds one up, in an order that chance gives. */
const troubles = (cluster: WebCluster, random: Random): (() => Promise<unknown>)[] =>
  random.shuffle([
    async () => {
      await cluster.kill(random.pick(cluster.webs));
      await delay(random.between(...CALM_MS));
      return cluster.add();
    },
    async () => {
      const { child } = random.pick(cluster.webs);
      child.kill("SIGSTOP");
      await delay(PAUSE_MS);
      child.kill("SIGCONT");
    },
  ]);

/** Does what clusters suffer, one after another, while connections are cut; resolves when that is over. */
export const makeTrouble = async (cluster: WebCluster, random: Random): Promise<void> => {
  const cutting = random.fork("cuts");
  const cuts = setInterval(() => {
    for (const socket of cluster.balancer.open()) if (cutting.chance(CUT_SHARE)) socket.destroy();
  }, CUT_EVERY_MS);
  try {
    for (const trouble of troubles(cluster, random)) {
      await delay(random.between(...CALM_MS));
      await trouble();
    }
    await delay(random.between(...CALM_MS));
  } finally {
    clearInterval(cuts);
  }
};
