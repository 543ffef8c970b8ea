import { blockAddress } from "../../../src/domain/accounts/rate-limits/ip-blocks.ts";
import { startApp } from "../app/app.ts";
import { anAddress } from "../http/client.ts";
import type { Known } from "./operations.ts";

const ofAddress = (suffix = "", body: unknown = {}): Known => ({
  call: () => ({ path: `/admin/rate-limits/ip/${anAddress()}${suffix}`, body }),
});

const aBlockedAddress = async (): Promise<string> => {
  const { app } = await startApp();
  const network = anAddress();
  const block = { reason: "Swept", source: "MANUAL", seconds: 60, createdBy: "system" } as const;
  await app.transact((work) => blockAddress(work, { network, ...block }));
  return network;
};

export const rateLimitOperations: Record<string, Known> = {
  getIpRateLimit: ofAddress("?bucket=login"),
  blockIp: ofAddress("/block", { reason: "Swept", durationSeconds: 60 }),
  unblockIp: {
    call: async () => ({ path: `/admin/rate-limits/ip/${await aBlockedAddress()}/block` }),
  },
  resetIpRateLimit: ofAddress("/reset", { bucket: "global" }),
  listIpBlocks: { call: () => ({ path: "/admin/rate-limits/blocked" }) },
};
