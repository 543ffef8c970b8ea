import { openWebhookCluster } from "./support/webhook-cluster.ts";
import { startReceiver } from "./support/webhook-receiver.ts";
import { startHostiles } from "./support/webhook-hostiles.ts";
import { sql } from "kysely";
const c = await openWebhookCluster({LOG_LEVEL:"warn"});
const good = await startReceiver(); const h = await startHostiles();
const site = await c.aSite(); await c.aWebhook(site,{url:good.url});
const bads=[];for(let i=0;i<6;i++){const s=await c.aSite();bads.push(s);for(const url of Object.values(h.urls)) await c.aWebhook(s,{url});}
const w = await c.startWorker();
const ev=(n)=>Array.from({length:n},(_,i)=>({n:i}));
const show=async(l)=>{const r=await c.app.transact(({db})=>sql`select status,count(*) n,(select count(*) from outbox_q) q from webhook_deliveries group by 1`.execute(db));console.log(l,good.received.length,JSON.stringify(r.rows));};
await c.commit(site,ev(1000));
for(let i=0;i<8;i++){await new Promise(r=>setTimeout(r,1000));await show("alone");}
for(const s of bads) await c.commit(s,ev(30));
await new Promise(r=>setTimeout(r,1000));
await c.commit(site,ev(1000));
for(let i=0;i<14;i++){await new Promise(r=>setTimeout(r,1000));await show("beside");}
console.log(w.output().slice(0,3000));
import {readFileSync} from "node:fs";
console.log(readFileSync(`/proc/${w.child.pid}/stat`,'utf8').split(' ').slice(13,15), readFileSync(`/proc/${w.child.pid}/status`,'utf8').match(/VmRSS.*/)[0]);
process.exit(0);
