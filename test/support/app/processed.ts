import { eventually } from "../eventually.ts";
import { type Client, must } from "../http/client.ts";

/** Waits until no event of a project waits any more. */
export const allProcessed = (api: Client, { key }: { key: string }, timeoutMs: number): Promise<boolean> =>
  eventually(
    async () => must(await api.get("/api/v1/events?status=PENDING&limit=1", { key }), 200).data.length === 0,
    { timeoutMs, label: "every event is processed" },
  );
