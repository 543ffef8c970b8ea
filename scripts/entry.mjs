// What pm2 runs in its cluster mode, where it takes no TypeScript.
import "../src/main.ts";
