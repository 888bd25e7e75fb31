"""The keys of a request that Chat Completions knows, and those that vendors add to it: data.

A test compares `KNOWN` with the official client's own types.
"""

from __future__ import annotations

from typing import Final

#: What the official client can send.
KNOWN: Final = frozenset(
    {"messages", "model", "audio", "frequency_penalty", "function_call", "functions"}
    | {"logit_bias", "logprobs", "max_completion_tokens", "max_tokens", "metadata", "modalities"}
    | {"moderation", "n", "parallel_tool_calls", "prediction", "presence_penalty"}
    | {"prompt_cache_key", "prompt_cache_options", "prompt_cache_retention", "reasoning_effort"}
    | {"response_format", "safety_identifier", "seed", "service_tier", "stop", "store", "stream"}
    | {"stream_options", "temperature", "tool_choice", "tools", "top_logprobs", "top_p", "user"}
    | {"verbosity", "web_search_options"}
)
#: What servers add for sampling, more than one of them each.
_SAMPLING: Final = frozenset(
    {"top_k", "min_p", "top_a", "typical_p", "tfs_z", "repetition_penalty", "repeat_penalty"}
    | {"length_penalty", "min_tokens", "ignore_eos", "stop_token_ids", "bad_words", "logit_bias"}
    | {"include_stop_str_in_output", "skip_special_tokens", "spaces_between_special_tokens"}
    | {"allowed_token_ids", "best_of", "use_beam_search", "early_stopping", "random_seed"}
)
#: What constrains the output, or fills in the template.
_TEMPLATES: Final = frozenset(
    {"chat_template", "chat_template_kwargs", "add_generation_prompt", "continue_final_message"}
    | {"add_special_tokens", "documents", "guided_json", "guided_regex", "guided_choice"}
    | {"guided_grammar", "guided_decoding_backend", "structured_outputs", "grammar"}
    | {"json_schema", "regex", "ebnf", "mm_processor_kwargs", "media_io_kwargs"}
)
_VLLM: Final = frozenset(
    {"priority", "cache_salt", "prompt_logprobs", "truncate_prompt_tokens", "vllm_xargs"}
    | {
        "return_tokens_as_token_ids",
        "return_token_ids",
        "include_reasoning",
        "thinking_token_budget",
    }
    | {"repetition_detection", "kv_transfer_params"}
)
_SGLANG: Final = frozenset(
    {"separate_reasoning", "stream_reasoning", "lora_path", "no_stop_trim", "custom_params"}
    | {"custom_logit_processor", "return_hidden_states", "session_params"}
)
_LLAMACPP: Final = frozenset(
    {"cache_prompt", "id_slot", "n_keep", "n_predict", "samplers", "lora", "reasoning_format"}
    | {"reasoning_budget", "thinking_forced_open", "parse_tool_calls", "timings_per_token"}
    | {"dynatemp_range", "dynatemp_exponent", "mirostat", "mirostat_tau", "mirostat_eta"}
    | {"xtc_probability", "xtc_threshold", "typ_p", "repeat_last_n", "min_keep", "n_probs"}
    | {"dry_multiplier", "dry_base", "dry_allowed_length", "dry_penalty_last_n"}
    | {"dry_sequence_breakers", "top_n_sigma", "return_progress", "t_max_predict_ms"}
)
_OLLAMA: Final = frozenset({"options", "keep_alive", "format", "think", "num_ctx", "ttl"})
#: What the hosted services add: OpenRouter, DeepSeek, GLM, Kimi, Qwen, Mistral, Google, Groq, xAI.
_SERVICES: Final = frozenset(
    {"provider", "models", "route", "transforms", "plugins", "preset", "usage", "session_id"}
    | {"thinking", "enable_thinking", "thinking_budget", "preserve_thinking", "clear_thinking"}
    | {"do_sample", "tool_stream", "request_id", "user_id", "reasoning_split", "enable_search"}
    | {"search_options", "safe_prompt", "prompt_mode", "extra_body", "google", "safety_settings"}
    | {
        "cached_content",
        "search_parameters",
        "search_settings",
        "compound_custom",
        "citation_options",
    }
    | {"deferred", "search_mode", "search_domain_filter", "search_recency_filter"}
    | {"return_images", "return_related_questions", "context_length_exceeded_behavior"}
    | {"prompt_truncate_len", "raw_output", "perf_metrics_in_response", "disable_reasoning"}
)
#: What a server of which nothing is known may be sent, if a client asks for it.
EXTRAS: Final = _SAMPLING | _TEMPLATES | _VLLM | _SGLANG | _LLAMACPP | _OLLAMA | _SERVICES
