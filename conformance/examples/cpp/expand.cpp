// Reads golden vectors in C++17 without Python: writes every case out as vectors/README.md says, and holds it to its id.
//
//     c++ -O2 -std=c++17 expand.cpp -o expand
//     ./expand path/to/mxspec_vectors/v1
//
// Prints for each file the number of its cases, a SHA-256 of all inputs and one of all answers; exits with 1 where a recipe
// gives inputs other than those that a case's id stands for, or a scale table other bytes than its digest does.
//
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <array>
#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <map>
#include <set>
#include <sstream>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

namespace {

// SHA-256 (FIPS 180-4).

class Sha256 {
public:
    void add(const std::string& text) {
        for (const unsigned char byte : text) {
            block_[used_++] = byte;
            if (used_ == 64) digest_block();
        }
        length_ += text.size();
    }

    std::string hex() {
        const std::uint64_t bits = length_ * 8;
        std::string tail(1, '\x80');
        tail.append((119 - length_ % 64) % 64, '\0');
        for (int shift = 56; shift >= 0; shift -= 8) tail += static_cast<char>(bits >> shift & 0xff);
        add(tail);
        std::string text;
        char word[9];
        for (const std::uint32_t h : state_) {
            std::snprintf(word, sizeof word, "%08x", static_cast<unsigned>(h));
            text += word;
        }
        return text;
    }

private:
    static std::uint32_t rotate(std::uint32_t x, int n) { return x >> n | x << (32 - n); }

    void digest_block() {
        static const std::uint32_t k[64] = {
            0x428a2f98, 0x71374491, 0xb5c0fbcf, 0xe9b5dba5, 0x3956c25b, 0x59f111f1, 0x923f82a4, 0xab1c5ed5,
            0xd807aa98, 0x12835b01, 0x243185be, 0x550c7dc3, 0x72be5d74, 0x80deb1fe, 0x9bdc06a7, 0xc19bf174,
            0xe49b69c1, 0xefbe4786, 0x0fc19dc6, 0x240ca1cc, 0x2de92c6f, 0x4a7484aa, 0x5cb0a9dc, 0x76f988da,
            0x983e5152, 0xa831c66d, 0xb00327c8, 0xbf597fc7, 0xc6e00bf3, 0xd5a79147, 0x06ca6351, 0x14292967,
            0x27b70a85, 0x2e1b2138, 0x4d2c6dfc, 0x53380d13, 0x650a7354, 0x766a0abb, 0x81c2c92e, 0x92722c85,
            0xa2bfe8a1, 0xa81a664b, 0xc24b8b70, 0xc76c51a3, 0xd192e819, 0xd6990624, 0xf40e3585, 0x106aa070,
            0x19a4c116, 0x1e376c08, 0x2748774c, 0x34b0bcb5, 0x391c0cb3, 0x4ed8aa4a, 0x5b9cca4f, 0x682e6ff3,
            0x748f82ee, 0x78a5636f, 0x84c87814, 0x8cc70208, 0x90befffa, 0xa4506ceb, 0xbef9a3f7, 0xc67178f2};
        std::uint32_t w[64];
        for (int i = 0; i < 16; i++)
            w[i] = static_cast<std::uint32_t>(block_[4 * i]) << 24 | block_[4 * i + 1] << 16 | block_[4 * i + 2] << 8 |
                   block_[4 * i + 3];
        for (int i = 16; i < 64; i++) {
            const std::uint32_t a = w[i - 15], b = w[i - 2];
            w[i] = w[i - 16] + (rotate(a, 7) ^ rotate(a, 18) ^ a >> 3) + w[i - 7] +
                   (rotate(b, 17) ^ rotate(b, 19) ^ b >> 10);
        }
        std::array<std::uint32_t, 8> s = state_;
        for (int i = 0; i < 64; i++) {
            const std::uint32_t t1 = s[7] + (rotate(s[4], 6) ^ rotate(s[4], 11) ^ rotate(s[4], 25)) +
                                     ((s[4] & s[5]) ^ (~s[4] & s[6])) + k[i] + w[i];
            const std::uint32_t t2 = (rotate(s[0], 2) ^ rotate(s[0], 13) ^ rotate(s[0], 22)) +
                                     ((s[0] & s[1]) ^ (s[0] & s[2]) ^ (s[1] & s[2]));
            s = {t1 + t2, s[0], s[1], s[2], s[3] + t1, s[4], s[5], s[6]};
        }
        for (int i = 0; i < 8; i++) state_[i] += s[i];
        used_ = 0;
    }

    std::array<std::uint32_t, 8> state_ = {0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a,
                                           0x510e527f, 0x9b05688c, 0x1f83d9ab, 0x5be0cd19};
    std::array<unsigned char, 64> block_{};
    std::size_t used_ = 0;
    std::uint64_t length_ = 0;
};

std::string sha256(const std::string& text) {
    Sha256 digest;
    digest.add(text);
    return digest.hex();
}

// JSON, as far as vector files use it: no floats, no escapes but those of ASCII text.

struct Json {
    enum class Kind { null, boolean, number, text, list, object };
    Kind kind = Kind::null;
    long long number = 0;
    std::string text;
    std::vector<Json> list;
    std::vector<std::pair<std::string, Json>> object;

    static Json of(std::string value) {
        Json json;
        json.kind = Kind::text;
        json.text = std::move(value);
        return json;
    }

    static Json of(long long value) {
        Json json;
        json.kind = Kind::number;
        json.number = value;
        return json;
    }

    const Json* find(const std::string& key) const {
        for (const auto& [name, value] : object)
            if (name == key) return &value;
        return nullptr;
    }

    bool has(const std::string& key) const { return find(key) != nullptr; }

    const Json& operator[](const std::string& key) const {
        const Json* found = find(key);
        if (!found) throw std::runtime_error("a file lacks \"" + key + "\"");
        return *found;
    }
};

class Parser {
public:
    explicit Parser(const std::string& text) : text_(text) {}

    Json parse() {
        Json json;
        switch (next()) {
        case '{':
            json.kind = Json::Kind::object;
            at_++;
            while (next() != '}') {
                if (text_[at_] == ',') at_++;
                std::string key = string();
                expect(':');
                json.object.emplace_back(std::move(key), parse());
            }
            at_++;
            break;
        case '[':
            json.kind = Json::Kind::list;
            at_++;
            while (next() != ']') {
                if (text_[at_] == ',') at_++;
                json.list.push_back(parse());
            }
            at_++;
            break;
        case '"':
            json.kind = Json::Kind::text;
            json.text = string();
            break;
        case 't':
        case 'f':
            json.kind = Json::Kind::boolean;
            json.number = text_[at_] == 't';
            at_ += json.number ? 4 : 5;
            break;
        case 'n':
            at_ += 4;
            break;
        default: {
            json.kind = Json::Kind::number;
            std::size_t length = 0;
            json.number = std::stoll(text_.substr(at_, 24), &length);
            at_ += length;
        }
        }
        return json;
    }

private:
    char next() {
        while (at_ < text_.size() && (text_[at_] == ' ' || text_[at_] == '\n')) at_++;
        if (at_ >= text_.size()) throw std::runtime_error("a file ends too early");
        return text_[at_];
    }

    void expect(char wanted) {
        if (next() != wanted) throw std::runtime_error(std::string("expected ") + wanted);
        at_++;
    }

    std::string string() {
        expect('"');
        std::string value;
        while (text_.at(at_) != '"') {
            if (text_[at_] == '\\') at_++;
            value += text_.at(at_++);
        }
        at_++;
        return value;
    }

    const std::string& text_;
    std::size_t at_ = 0;
};

/// One line without spaces, keys in order: what ids are digests of.
std::string canonical(const Json& json) {
    std::string text;
    switch (json.kind) {
    case Json::Kind::null: return "null";
    case Json::Kind::boolean: return json.number ? "true" : "false";
    case Json::Kind::number: return std::to_string(json.number);
    case Json::Kind::text: return '"' + json.text + '"';
    case Json::Kind::list:
        for (const Json& item : json.list) text += (text.empty() ? "" : ",") + canonical(item);
        return '[' + text + ']';
    case Json::Kind::object: break;
    }
    std::map<std::string, const Json*> sorted;
    for (const auto& [key, value] : json.object) sorted[key] = &value;
    for (const auto& [key, value] : sorted) text += (text.empty() ? "\"" : ",\"") + key + "\":" + canonical(*value);
    return '{' + text + '}';
}

// Hex.

using Words = std::vector<std::uint32_t>;

Words read_words(const std::string& text) {
    Words words;
    for (std::size_t i = 0; i < text.size(); i += 8)
        words.push_back(static_cast<std::uint32_t>(std::stoul(text.substr(i, 8), nullptr, 16)));
    return words;
}

std::string hex(std::uint64_t value, int digits) {
    static const char* const symbols = "0123456789abcdef";
    std::string text(static_cast<std::size_t>(digits), '0');
    for (int i = digits - 1; i >= 0; i--, value >>= 4) text[static_cast<std::size_t>(i)] = symbols[value & 15];
    return text;
}

std::string hex_words(const Words& words) {
    std::string text;
    for (const std::uint32_t word : words) text += hex(word, 8);
    return text;
}

/// `ff(00*511)` written out.
std::string write_out_runs(const std::string& text) {
    std::string bytes;
    for (std::size_t i = 0; i < text.size();) {
        if (text[i] != '(') {
            bytes += text.substr(i, 2);
            i += 2;
            continue;
        }
        const std::size_t end = text.find(')', i);
        for (int count = std::stoi(text.substr(i + 4, end - i - 4)); count > 0; count--) bytes += text.substr(i + 1, 2);
        i = end + 1;
    }
    return bytes;
}

/// The first `period` words of each row, repeated over its k lanes.
std::string repeat_period(const std::string& text, std::size_t width, std::size_t period, std::size_t k) {
    std::string rows;
    for (std::size_t row = 0; row < text.size(); row += period * width)
        for (std::size_t lane = 0; lane < k; lane++) rows += text.substr(row + lane % period * width, width);
    return rows;
}

// Recipes.

constexpr std::uint32_t SIGN = 0x80000000, IMPLICIT = 0x00800000, LARGEST = 0x7f7fffff;

/// float32 bits of value * 2**exponent for the bits of a finite magnitude: to nearest even, at most the largest float32.
std::uint32_t scale_bits(std::uint32_t bits, int exponent) {
    std::uint64_t significand = bits & (IMPLICIT - 1);
    int field = static_cast<int>(bits >> 23);
    if (field > 0) {
        significand |= IMPLICIT;
    } else {
        if (significand == 0) return 0;
        for (field = 1; significand < IMPLICIT; field--) significand <<= 1;
    }
    field += exponent;
    if (field >= 255) return LARGEST;
    if (field >= 1) return (static_cast<std::uint32_t>(field) << 23) + static_cast<std::uint32_t>(significand) - IMPLICIT;
    const int drop = 1 - field;
    if (drop > 40) return 0;
    const std::uint64_t kept = significand >> drop, rest = significand & ((1ull << drop) - 1), half = 1ull << (drop - 1);
    return static_cast<std::uint32_t>(kept + (rest > half || (rest == half && kept % 2 == 1)));
}

/// `largest` at a position, the lanes around it, zeros after them.
Words place_largest(const Words& lanes, std::uint32_t largest, std::size_t k, std::size_t position) {
    Words row(lanes.begin(), lanes.begin() + static_cast<long>(std::min(lanes.size(), k - 1)));
    row.resize(k - 1);
    row.insert(row.begin() + static_cast<long>(position), largest);
    return row;
}

Words make_positions(const Json& recipe, std::size_t number, std::size_t k) {
    const Words values = read_words(recipe["lanes"].text), largest = read_words(recipe["largest"].text);
    const std::size_t position = number / 2;
    Words lanes;
    for (std::size_t i = 0; i < k; i++) lanes.push_back(values[i % 5] | ((i + position) % 3 == 0 ? SIGN : 0));
    return place_largest(lanes, largest[position % 2] | (number % 2 ? SIGN : 0), k, position);
}

Words make_binades(const Json& recipe, std::size_t number, std::size_t k) {
    const Words points = read_words(recipe["points"].text), significands = read_words(recipe["significands"].text);
    const int n = static_cast<int>(number);
    const int exponent = n < 277 ? n - 149 : 16 * (n - 277) - 140;
    const std::uint32_t significand = IMPLICIT | (n < 277 ? significands[number % 5] : IMPLICIT - 1);
    const std::uint32_t largest = exponent < -126
                                      ? significand >> (-126 - exponent)
                                      : significand + (static_cast<std::uint32_t>(exponent + 126) << 23);
    const int scale = std::max(exponent - static_cast<int>(recipe["emax"].number), -127);
    Words reached;
    for (const std::uint32_t point : points)
        if (const std::uint32_t scaled = scale_bits(point, scale); scaled <= largest) reached.push_back(scaled);
    Words lanes(k - 1, 0);
    for (std::size_t i = 0; i < k - 1 && !reached.empty(); i++) lanes[i] = reached[(37 * number + i) % reached.size()];
    const std::uint32_t tiny = n % 2 ? 0 : scale_bits(read_words(recipe["smallest"].text)[0], scale - 3);
    const std::uint32_t special[] = {tiny, largest, scale_bits(largest, -1)};
    lanes[5 * number % (k - 1)] = special[number % 3];
    const std::size_t kind = (number + number / k) % 4;
    const std::uint32_t sign = kind > 1 ? SIGN : 0;
    for (std::size_t i = 0; i < k - 1; i++)
        lanes[i] |= (kind == 0 || kind == 3) && (i + number / 4) % 2 == 0 ? sign ^ SIGN : sign;
    return place_largest(lanes, largest | sign, k, 11 * number % k);
}

/// A digit of each item's number, or of its scrambled number.
std::string make_digits(std::uint64_t count, std::uint64_t base, const Json& plane, int digits) {
    std::string text;
    for (std::uint64_t item = 0; item < count; item++) {
        std::uint64_t number = item;
        if (plane.kind == Json::Kind::text)
            number = (item * 2654435761u & 0xffffffffu) >> 16;
        else
            for (long long i = 0; i < plane.number; i++) number /= base;
        text += hex(number % base, digits);
    }
    return text;
}

struct ScaleTable {
    Words first;
    std::vector<int> scale;  // -1 where such blocks are refused

    explicit ScaleTable(const Json& entry) {
        const Words starts = read_words(entry["first"].text);
        const std::string& bytes = entry["scale"].text;
        for (std::size_t i = 0; i < starts.size(); i++) {
            const long long count = entry.has("count") ? entry["count"].list[i].number : 1;
            const int byte = bytes[2 * i] == '-' ? -1 : std::stoi(bytes.substr(2 * i, 2), nullptr, 16);
            for (int n = 0; n < count; n++) {
                first.push_back(starts[i] + static_cast<std::uint32_t>(n) * IMPLICIT);
                scale.push_back(byte + n);
            }
        }
        std::string all;
        for (std::uint32_t bits = 0; bits < 1u << 15; bits++)
            if (const int answer = at(bits << 16); answer >= 0) all += static_cast<char>(answer);
        if (sha256(all) != entry["bfloat16"].text) throw std::runtime_error("a scale table has another digest");
    }

    int at(std::uint32_t amax) const {
        const auto next = std::upper_bound(first.begin(), first.end(), amax);
        return scale[static_cast<std::size_t>(next - first.begin()) - 1];
    }
};

Words make_steps(const Json& recipe, const std::vector<ScaleTable>& tables, std::uint32_t limit) {
    const auto argument = [&recipe](std::size_t i) { return static_cast<std::size_t>(recipe.list[i].number); };
    const Words& first = tables[argument(1)].first;
    std::set<std::uint32_t> points;
    for (std::size_t i = argument(2); i < argument(2) + argument(3); i++)
        for (const std::uint32_t bits : {first.at(i) - 1, first[i], first[i] + 1})
            if (bits >= 1 && bits <= limit) points.insert(bits);
    const Words sorted(points.begin(), points.end());
    const std::size_t begin = 96 * argument(4), end = std::min(begin + 96, sorted.size());
    return Words(sorted.begin() + static_cast<long>(begin), sorted.begin() + static_cast<long>(end));
}

Words make_bfloat16(const std::string& kind) {
    const std::map<std::string, std::pair<std::uint32_t, std::uint32_t>> ranges = {
        {"zero", {0, 0}}, {"finite", {1, 0x7f7f}}, {"inf", {0x7f80, 0x7f80}}, {"nan", {0x7f81, 0x7fff}}};
    Words words;
    for (std::uint32_t bits = ranges.at(kind).first; bits <= ranges.at(kind).second; bits++) words.push_back(bits << 16);
    return words;
}

// Operands of products.

struct Side {
    std::size_t run, digits;
    int fraction;  // -1: codes under scales

    explicit Side(const Json& entry)
        : run(static_cast<std::size_t>(entry["run"].number)),
          digits(static_cast<std::size_t>(entry["digits"].number)),
          fraction(entry.has("fraction") ? static_cast<int>(entry["fraction"].number) : -1) {}
};

std::uint32_t mix(std::uint32_t seed, std::uint32_t number) {
    std::uint32_t h = number + seed * 0x9e3779b9u;
    h = (h ^ h >> 16) * 0x85ebca6bu;
    h = (h ^ h >> 13) * 0xc2b2ae35u;
    return h ^ h >> 16;
}

/// A matrix of a table's entries.
Words choose(const Json& choice, const Words& table, std::size_t rows, std::size_t columns) {
    const std::string& kind = choice.list.at(0).text;
    const auto argument = [&choice](std::size_t i) { return static_cast<std::size_t>(choice.list.at(i + 2).number); };
    Words words;
    for (std::size_t row = 0; row < rows; row++)
        for (std::size_t column = 0; column < columns; column++) {
            std::size_t place;
            if (kind == "draw")
                place = mix(static_cast<std::uint32_t>(argument(0)), static_cast<std::uint32_t>(row * columns + column)) % table.size();
            else if (kind == "turn")
                place = (argument(0) * row + argument(1) * column) % table.size();
            else if (kind == "hot")
                place = column == (argument(0) * row + argument(1)) % columns;
            else if (kind == "head")
                place = column < argument(0) * row + argument(1);
            else
                throw std::runtime_error("unknown choice " + kind);
            words.push_back(table.at(place));
        }
    return words;
}

Words read_table(const std::string& text, std::size_t digits) {
    Words words;
    for (std::size_t i = 0; i < text.size(); i += digits)
        words.push_back(static_cast<std::uint32_t>(std::stoul(text.substr(i, digits), nullptr, 16)));
    return words;
}

/// The operands of a product: `a`, `a_scales`, `b` and `b_scales` by name, the scales of plain sides left out.
void make_operands(const Json& file, const Json& shape, const Json& recipe, std::map<std::string, Json>& question) {
    if (recipe.list.at(0).text != "sides") throw std::runtime_error("unknown recipe " + recipe.list[0].text);
    const auto k = static_cast<std::size_t>(shape.list.at(2).number);
    for (std::size_t number = 0; number < 2; number++) {
        const std::string which = number ? "b" : "a";
        const Side side(file["sides"][which]);
        const auto rows = static_cast<std::size_t>(shape.list.at(number).number);
        const std::size_t runs = (k + side.run - 1) / side.run;
        Words parts[2];
        for (std::size_t part = 0; part < 2; part++) {
            const std::string name = part ? which + "_scales" : which;
            const Json& choice = recipe.list.at(1 + 2 * number + part);
            const Words table = read_table(file["recipes"]["sides"][name][choice.list.at(1).text].text, part ? 2 : side.digits);
            const std::size_t columns = part ? runs : k;
            parts[part] = choose(choice, table, rows, columns);
            for (std::size_t i = 5; i < recipe.list.size(); i++) {
                const std::vector<Json>& edit = recipe.list[i].list;
                if (edit.at(0).text == name)
                    parts[part].at(static_cast<std::size_t>(edit.at(1).number) * columns + static_cast<std::size_t>(edit.at(2).number)) =
                        read_table(edit.at(3).text, edit[3].text.size()).at(0);
            }
        }
        std::string words, scales;
        const std::uint32_t ones = side.fraction < 0 ? 0 : (1u << (4 * side.digits - 1)) - (1u << side.fraction);
        for (std::size_t i = 0; i < rows * k; i++) {
            std::uint32_t word = parts[0][i];
            if (side.fraction >= 0 && word != 0 && (word & ones) != ones)
                word += (parts[1][i / k * runs + i % k / side.run] - 127) << side.fraction;
            words += hex(word, static_cast<int>(side.digits));
        }
        for (const std::uint32_t scale : parts[1]) scales += hex(scale, 2);
        question[which] = Json::of(words);
        if (side.fraction < 0) question[which + "_scales"] = Json::of(scales);
    }
}

// Files.

/// Everything of one file, written out.
class File {
public:
    explicit File(const Json& file) : file_(file), operation_(file["operation"].text), format_(file["format"].text) {
        if (operation_ == "scale")
            for (const Json& entry : file_["tables"].list) tables_.emplace_back(entry);
        for (const Json& group : file_["groups"].list)
            for (const Json& given : group["cases"].list) read(group, given);
        if (operation_ == "scale")
            for (const Json& given : file_["exhaustive"].list) read(given, given);
    }

    void print(const std::string& name) {
        std::cout << name << ' ' << count_ << ' ' << inputs_.hex() << ' ' << answers_.hex() << '\n';
    }

private:
    void read(const Json& group, const Json& given) {
        std::map<std::string, Json> question;
        for (const auto& [key, value] : given.object)
            if (key != "id" && key != "recipe" && key != "expect" && key != "data" && key != "period" && key != "topic" &&
                key != "flags" && key != "tensor")
                question[key] = value;
        if (group.has("tensor_scale")) question["tensor_scale"] = group["tensor_scale"];
        std::vector<std::string> answers;
        if (operation_ == "quantize") answers = quantize(given, question);
        else if (operation_ == "dequantize") answers = dequantize(given, question);
        else if (operation_ == "scale") answers = scale(group, given, question);
        else if (operation_ == "layout") answers = layout(given, question);
        else if (operation_ == "dot") answers = dot(given, question);
        else
            for (const Json& entry : given["expect"].list) answers.push_back(canonical(entry));
        question["operation"] = Json::of(operation_);
        question["format"] = Json::of(format_);
        if (operation_ == "encode") question["nan"] = file_["nan"];
        Json identity;
        identity.kind = Json::Kind::object;
        identity.object.assign(question.begin(), question.end());
        const std::string asked = canonical(identity), &id = given["id"].text;
        if (sha256(asked).substr(0, 10) != id.substr(id.size() - 10))
            throw std::runtime_error("case " + id + " is expanded to other inputs than its id stands for");
        inputs_.add(id + ' ' + asked + '\n');
        answers_.add(id);
        for (const std::string& answer : answers) answers_.add(' ' + answer);
        answers_.add("\n");
        count_++;
    }

    /// The answer of each profile; "-" where it says nothing. `texts` are the distinct answers.
    std::vector<std::string> by_profile(const std::vector<std::string>& texts) const {
        static const std::string symbols = "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ";
        std::vector<std::string> answers;
        for (const auto& [name, line] : file_["profiles"].object) {
            const char symbol = line.text.at(count_);
            answers.push_back(symbol == '-' ? "-" : texts.at(symbols.find(symbol)));
        }
        return answers;
    }

    std::vector<std::string> quantize(const Json& given, std::map<std::string, Json>& question) const {
        const long long k = file_["k"].number;
        if (!given.has("shape")) {
            Json shape;
            shape.kind = Json::Kind::list;
            shape.list = {Json::of(1LL), Json::of(k)};
            question["shape"] = shape;
        }
        if (given.has("recipe")) {
            const std::string& name = given["recipe"].list[0].text;
            const auto number = static_cast<std::size_t>(given["recipe"].list[1].number);
            if (name != "positions" && name != "binades") throw std::runtime_error("unknown recipe " + name);
            const auto make = name == "positions" ? make_positions : make_binades;
            question["x"] = Json::of(hex_words(make(file_["recipes"][name], number, static_cast<std::size_t>(k))));
        }
        std::vector<std::string> texts;
        for (const Json& rows : given["expect"].list) texts.push_back(canonical(rows));
        return by_profile(texts);
    }

    std::vector<std::string> dequantize(const Json& given, std::map<std::string, Json>& question) const {
        const auto rows = static_cast<std::size_t>(given["shape"].list[0].number);
        const auto k = static_cast<std::size_t>(given["shape"].list[1].number);
        const std::size_t width = given["dtype"].text == "float32" ? 8 : 4;
        std::vector<std::string> texts;
        for (const Json& values : given["expect"].list) texts.push_back(values.text);
        if (given.has("period")) {
            const auto period = static_cast<std::size_t>(given["period"].number);
            const std::string& codes = given["codes"].text;
            std::string all;
            for (std::size_t row = 0; row < rows; row++) all += codes;
            question["codes"] = Json::of(repeat_period(all, codes.size() / period, period, k));
            for (std::string& text : texts) text = repeat_period(text, width, period, k);
        }
        return by_profile(texts);
    }

    std::vector<std::string> scale(const Json& group, const Json& given, std::map<std::string, Json>& question) const {
        const auto tensor = static_cast<std::size_t>(group["tensor"].number);
        const Json& setting = file_["tensor_scales"].list.at(tensor);
        std::uint32_t limit = LARGEST;
        if (setting.kind == Json::Kind::object) {
            question["tensor_scale"] = setting;
            limit = std::min(limit, read_words(setting["amax"].text)[0]);
        }
        if (given.has("recipe")) {
            const std::string& name = given["recipe"].list[0].text;
            if (name != "steps" && name != "bfloat16") throw std::runtime_error("unknown recipe " + name);
            question["amax"] = Json::of(hex_words(
                name == "steps" ? make_steps(given["recipe"], tables_, limit) : make_bfloat16(given["recipe"].list[1].text)));
        }
        const Words maxima = read_words(question["amax"].text);
        std::vector<std::string> answers;
        for (const auto& [name, numbers] : file_["profiles"].object) {
            const Json& number = numbers.list.at(tensor);
            std::string text;
            if (number.kind == Json::Kind::number)
                for (const std::uint32_t amax : maxima) {
                    const int byte = tables_.at(static_cast<std::size_t>(number.number)).at(amax);
                    text += byte < 0 ? "--" : hex(static_cast<std::uint64_t>(byte), 2);
                }
            answers.push_back(text.empty() || text.find('-') != std::string::npos ? "-" : text);
        }
        return answers;
    }

    std::vector<std::string> layout(const Json& given, std::map<std::string, Json>& question) const {
        if (given.has("recipe")) {
            if (given["recipe"].list[0].text != "digits") throw std::runtime_error("unknown recipe");
            for (const Json& part : file_["parts"].list) {
                std::uint64_t count = 1;
                for (const Json& length : given["shape"].list) count *= static_cast<std::uint64_t>(length.number);
                count /= static_cast<std::uint64_t>(part["one_for_columns"].number);
                const auto base = static_cast<std::uint64_t>(file_["recipes"]["digits"][part["part"].text].number);
                question[part["part"].text] =
                    Json::of(make_digits(count, base, given["recipe"].list[1], part["bits"].number <= 4 ? 1 : 2));
            }
        }
        return {write_out_runs(given["data"].text)};
    }

    std::vector<std::string> dot(const Json& given, std::map<std::string, Json>& question) const {
        if (given.has("recipe")) make_operands(file_, given["shape"], given["recipe"], question);
        std::vector<std::string> texts;
        for (const Json& ends : given["expect"].list) {
            std::string text = ends.list.at(0).text;
            if (ends.list.size() > 1) text += ".." + ends.list[1].text;
            texts.push_back(text);
        }
        return by_profile(texts);
    }

    const Json& file_;
    std::string operation_, format_;
    std::vector<ScaleTable> tables_;
    std::size_t count_ = 0;
    Sha256 inputs_, answers_;
};

std::string read_text(const std::filesystem::path& path) {
    std::ifstream stream(path, std::ios::binary);
    if (!stream) throw std::runtime_error("cannot be read");
    std::ostringstream text;
    text << stream.rdbuf();
    return text.str();
}

}  // namespace

int main(int argc, char** argv) {
    if (argc != 2) {
        std::cerr << "usage: expand FOLDER\n";
        return 2;
    }
    const std::filesystem::path root = argv[1];
    int wrong = 0;
    try {
        const std::string index_text = read_text(root / "index.json");
        const Json index = Parser(index_text).parse();
        for (const auto& [name, entry] : index["files"].object) {
            try {
                const std::string text = read_text(root / name);
                if (sha256(text) != entry["sha256"].text) throw std::runtime_error("the index has another SHA-256");
                const Json file = Parser(text).parse();
                File(file).print(name);
            } catch (const std::exception& error) {
                std::cerr << name << ": " << error.what() << '\n';
                wrong++;
            }
        }
    } catch (const std::exception& error) {
        std::cerr << root.string() << ": " << error.what() << '\n';
        return 2;
    }
    return wrong ? 1 : 0;
}
