/** Takes the place of the process in the addresses that SDKs before 0.17 make. */
const OLD_SDK_PROCESS = "old-sdk";

/** Tells the developer of such a client. Also fits into the reason of a close. */
export const OLD_SDK = "this server needs the Colyseus SDK 0.18 (npm: @colyseus/sdk)";

type Seat = { name: string; roomId: string };

/**
 * Returns the part of a seat that only SDKs before 0.17 read, and without which they fail with an obscure
 * error: it leads them to an address where a socket is told which version is needed.
 */
export const seatForOldSdk = ({ name, roomId }: Seat) => ({
  room: { name, roomId, processId: OLD_SDK_PROCESS },
});

/** Whether the address of a socket was made from such a seat. */
export const isOldSdk = ({ url = "" }: { url?: string | undefined }): boolean =>
  url.startsWith(`/${OLD_SDK_PROCESS}/`);
