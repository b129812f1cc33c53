// Calls the door through OpenAI's SDK: each key several times, at once and again, streamed and not. See sdk_test.go.
import OpenAI from "openai";

const [name, keys, repeats] = [process.argv[2], Number(process.argv[3]), Number(process.argv[4])];
const client = new OpenAI(); // OPENAI_BASE_URL, OPENAI_API_KEY; retries at default

async function whole(request, options) {
  const answer = await client.chat.completions.create(request, options);
  const { message, finish_reason } = answer.choices[0];
  return { id: answer.id, text: message.content, finish: finish_reason, tokens: answer.usage.total_tokens };
}

async function streamed(request, options) {
  const result = { id: null, text: "", finish: null, tokens: null };
  const stream = await client.chat.completions.create({ ...request, stream: true, stream_options: { include_usage: true } }, options);
  for await (const chunk of stream) {
    result.id = chunk.id;
    result.tokens = chunk.usage?.total_tokens ?? result.tokens;
    for (const choice of chunk.choices) {
      result.text += choice.delta.content ?? "";
      result.finish = choice.finish_reason ?? result.finish;
    }
  }
  return result;
}

async function call({ key, stream }) {
  const request = {
    model: "sim-1",
    messages: [{ role: "system", content: "Be brief." }, { role: "user", content: `drill ${key};` }],
  };
  for (let tries = 1; tries < 40; tries++) {
    try {
      const result = await (stream ? streamed : whole)(request, { headers: { "Idempotency-Key": key } });
      return { key, stream, ...result, tries };
    } catch (error) {
      if (error.status !== undefined) throw error;
      // The connection broke more often than the SDK repeats, or in the middle of a stream.
    }
  }
  throw new Error(`${key}: no answer`);
}

// Of each key first all whole ones and streamed ones by turns, so that its repeats are far apart and close together.
const jobs = [];
for (let r = 0; r < repeats; r++) for (let k = 0; k < keys; k++) jobs.push({ key: `${name}-${(k * 7 + r * 3) % keys}`, stream: (k + r) % 2 === 0 });
const workers = Array.from({ length: 12 }, async () => {
  for (let job; (job = jobs.shift()); ) console.log(JSON.stringify(await call(job)));
});
await Promise.all(workers);
