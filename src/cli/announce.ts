import type { Config } from "../config.ts";
import type { Running } from "./serve.ts";

/** Tells whoever started the server where it is. */
export const announce = async (running: Running, config: Config, startMs: number): Promise<void> => {
  const { address } = running;
  if (!address) {
    console.log(`Laurel worker ready in ${Math.round(startMs)} ms`);
    return;
  }
  const url = config.publicUrl.replace(/:0$/, `:${address.port}`);
  console.log(`Laurel is ready on ${url} (${config.mode} mode, ${Math.round(startMs)} ms). API: ${url}/docs`);
};
