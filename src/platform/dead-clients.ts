/** Time for a dead client's holder to notice at its next query, in ms. */
const DEAD_CLIENT_GRACE_MS = 1_000;

type PoolClient = {
  on(event: "error", listener: () => void): void;
  query(text: string): Promise<unknown>;
  prepareScopes(): void;
  release?: (destroy: boolean) => void;
};
export type Pool = { on(event: "connect", listener: (client: PoolClient) => void): void };

/**
 * Frees the pool slot of a client that died while a transaction held it. When commit and rollback both fail,
 * the layers above keep the client for ever, and as many connection losses as the pool has slots would leave
 * the process without a database.
 */
export const freeDeadClients = (pool: Pool): void => {
  pool.on("connect", (client) => {
    client.on("error", () => {
      const { release } = client;
      // Keeps its timer referenced: a process that closes its pool waits for this, and for nothing else.
      setTimeout(() => {
        try {
          release?.(true);
        } catch {
          // The usual case: its holder has released it.
        }
      }, DEAD_CLIENT_GRACE_MS);
    });
  });
};
