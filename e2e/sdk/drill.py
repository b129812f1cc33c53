"""Calls the door through OpenAI's SDK: each key several times, at once and again, streamed and not. See sdk_test.go."""

import concurrent.futures
import json
import random
import sys

import openai

name, keys, repeats = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
client = openai.OpenAI()  # OPENAI_BASE_URL, OPENAI_API_KEY; retries at default


def whole(request):
    answer = client.chat.completions.create(**request)
    choice = answer.choices[0]
    return answer.id, choice.message.content, choice.finish_reason, answer.usage.total_tokens


def streamed(request):
    text, finish, tokens, answer = "", None, None, None
    for chunk in client.chat.completions.create(stream=True, stream_options={"include_usage": True}, **request):
        answer = chunk.id
        if chunk.usage:
            tokens = chunk.usage.total_tokens
        for choice in chunk.choices:
            text += choice.delta.content or ""
            finish = choice.finish_reason or finish
    return answer, text, finish, tokens


def call(job):
    key, stream = job
    request = {
        "model": "sim-1",
        "messages": [{"role": "system", "content": "Be brief."}, {"role": "user", "content": f"drill {key};"}],
        "extra_headers": {"Idempotency-Key": key},
    }
    error = None
    for tries in range(1, 40):
        try:
            answer, text, finish, tokens = (streamed if stream else whole)(request)
        except openai.APIStatusError:
            raise
        except Exception as e:  # of openai, or of its transport in the middle of a stream: the connection broke
            error = e
            continue
        return {"key": key, "stream": stream, "id": answer, "text": text, "finish": finish, "tokens": tokens, "tries": tries}
    raise error


jobs = [(f"{name}-{k}", (k + r) % 2 == 0) for k in range(keys) for r in range(repeats)]
random.Random(1).shuffle(jobs)
with concurrent.futures.ThreadPoolExecutor(12) as pool:
    for result in pool.map(call, jobs):
        print(json.dumps(result), flush=True)
